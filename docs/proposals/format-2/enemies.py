"""Single things that go wrong, each shown. usage: enemies.py [SERVER]"""
import struct, sys, time
import scripts
from redis_raw import Server, RedisError
N = b'12345678'
WHOLE = {'fixed_window': 16, 'sliding_counter': 24}
SIZE = {'fixed_window': 16, 'ring': 39, 'zset': 16}
program = sys.argv[1] if len(sys.argv) > 1 else 'redis-server'
s = Server(program=program)
print([l for l in s.command('INFO', 'server').decode().splitlines() if '_version' in l])
for name in scripts.COUNTERS + ['ring', 'zset']:
    sha = s.command('SCRIPT', 'LOAD', scripts.script(name))
    size = SIZE.get(name, 24)
    def ask(keys, max=5, w=60e6, fails=False, **more):
        r = s.command('EVALSHA', sha, len(keys), *keys, N, scripts.question(max, w, covers=len(keys), **more), fails=fails)
        return r if isinstance(r, RedisError) else scripts.reply(r, N, [size] * len(keys), WHOLE.get(name, 48))[1]
    s.command('FLUSHALL')
    out = {}
    # A foreign type in the middle of a batch, and a foreign string.
    s.command('HSET', 'h', 'a', 'b'); s.command('SET', 'text', 'hello'); s.command('LPUSH', 'l', 'x')
    got = ask(['a', 'h', 'b', 'text', 'c', 'l', 'd'])
    out['foreign'] = [c for c, _ in got]
    assert out['foreign'][0] == out['foreign'][2] == out['foreign'][4] == out['foreign'][6] == 1, got
    assert all(c >= 65534 for c in out['foreign'][1::2]), got
    assert (s.command('TYPE', 'h'), s.command('GET', 'text'), s.command('TYPE', 'l')) == (b'hash', b'hello', b'list')
    out['alone, foreign'] = str(ask(['h'], fails=True))[:60]
    # Out of memory: nothing is written, each key says so; a known key goes on only where the command may.
    s.command('CONFIG', 'SET', 'maxmemory', '1')
    got = ask(['a', 'new'])
    out['oom'] = [(c, r[2:40]) if c == 65535 else c for c, r in got]
    out['oom alone'] = str(ask(['new'], fails=True))[:60]
    s.command('CONFIG', 'SET', 'maxmemory', '0')
    assert s.command('EXISTS', 'new') == 0 or out['oom'][1] == 1
    # MGET forbidden.
    s.command('ACL', 'SETUSER', 'u', 'on', '>p', '~*', '+@all', '-mget'); s.command('AUTH', 'u', 'p')
    out['no mget'] = [c for c, _ in ask(['a', 'b'])]
    s.command('AUTH', 'default', '', fails=True)
    s.socket.close(); s.file.close()
    import socket
    s.socket = socket.socket(socket.AF_UNIX); s.socket.connect(s.dir + '/socket'); s.file = s.socket.makefile('rb')
    # A client's clock.
    r = s.command('EVALSHA', sha, 1, 'cl', N + struct.pack('<d', 1e15), scripts.question(5, 60e6))
    out['client clock'] = (scripts.reply(r, N, [size], WHOLE.get(name, 48))[1][0][0], s.command('PTTL', 'cl'))
    # Two questions in one call, each over its keys; and one about the key before (handed over).
    q1, q2 = scripts.question(5, 60e6, covers=2), scripts.question(7, 60e6, covers=1)
    out['listed'] = [c for c, _ in scripts.reply(s.command('EVALSHA', sha, 3, 'x', 'y', 'z', N, q1, q2), N, [size] * 3, WHOLE.get(name, 48))[1]]
    print(name, out)
s.close()
