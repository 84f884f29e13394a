"""Foreign and damaged values at one key of a batch: does a script ever fail as a whole, or a neighbour go undecided?"""
import random, struct, sys
import scripts
from redis_raw import Server, RedisError
N = b'12345678'
SIZE = {'fixed_window': 16, 'ring': 39, 'zset': 16}
WHOLE = {'fixed_window': 16, 'sliding_counter': 24}
s = Server(); rng = random.Random(4)
import time
odd = [0.0, -1.0, float('nan'), float('inf'), float('-inf'), 1e300, 5e-324, 2.0 ** 53, -2.0 ** 53, 0.5]
for name in sys.argv[1:] or scripts.COUNTERS + ['ring', 'zset']:
    sha = s.command('SCRIPT', 'LOAD', scripts.script(name)); size = SIZE.get(name, 24)
    tally = {}
    for r in range(4000):
        s.command('DEL', 'f')
        for _ in range(rng.randint(0, 3)):
            s.command('EVALSHA', sha, 1, 'f', N, scripts.question(rng.choice([2, 50]), 60e6, cost=1))
        now = time.time() * 1e6
        value = s.command('GET', 'f', fails=True)
        how = rng.randint(0, 4)
        if name == 'zset':
            s.command('ZADD', 'f', rng.choice([now, now - 3e7, 1e300, -5, 'inf', 0.5]), rng.choice(['%016d' % now, 'meta:1', 'x', '', '%016d' % (now + 1e9), '1e15            ', '0x00000000000012', '            1e15', 'nan', '             inf']))
        elif how == 0:
            s.command('SET', 'f', bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 15, 16, 17, 24, 39, 40, 48, 51, 72, 96, 231]))))
        elif how == 1:
            s.command('SET', 'f', struct.pack('<%dd' % rng.choice([2, 3, 5, 6, 9]), *[0.0] * 0) if False else b''.join(struct.pack('<d', rng.choice(odd + [now, now + 1e6, now - 1e6, 7.0])) for _ in range(rng.choice([2, 3, 5, 6, 9]))))
        elif isinstance(value, bytes) and value:
            value = bytearray(value)
            if how == 2: value = value[:rng.randrange(len(value) + 1)]
            elif how == 3: value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
            else:
                at = rng.randrange(0, max(1, len(value) - 7)); value[at:at + 8] = struct.pack('<d', rng.choice(odd))
            s.command('SET', 'f', bytes(value))
        q = scripts.question(rng.choice([2, 50]), 60e6, covers=3, calls=rng.choice([1, 4]), operation=rng.choice([1, 1, 3]), block=rng.choice([0, 5e6]))
        a, b = 'a%d' % r, 'b%d' % r
        s.command('EVALSHA', sha, 3, a, 'c', b, N, q.replace(q[:1], b'\1', 1))
        reply = s.command('EVALSHA', sha, 3, a, 'f', b, N, q, fails=True)
        assert not isinstance(reply, RedisError), (name, r, how, reply, s.command('GET', 'f', fails=True))
        _, records = scripts.reply(reply, N, [size] * 3, WHOLE.get(name, 48))
        kind = {65535: 'failed', 65534: 'full'}.get(records[1][0], 'refused or looked' if records[1][0] >= 32768 else 'admitted')
        tally[kind] = tally.get(kind, 0) + 1
        assert records[0][0] not in (65535,) and records[2][0] not in (65535,), records
        for field in range(len(records[1][1]) // 8 if name not in ('ring', 'zset') else 0):
            n = struct.unpack_from('<d', records[1][1], 8 * field)[0]
            if kind == 'admitted': assert n == n, (name, 'NaN was admitted', how)
    print(name, tally, flush=True)
s.close()
