"""Random sequences against a model. usage: exact.py [SEED [ROUNDS]]
The server's clock is simulated: `call('TIME')` is replaced by a number from ARGV[1]'s tail, everything else of the script is as it is
(PXAT would be in the past or future of the real clock, so times start at the real clock and run ahead of it)."""
import random, struct, sys, time
import scripts
from redis_raw import Server, RedisError

NUMBER = b'12345678'


def cdiv(a, b):
    return -(-a // b)


class Log:
    def __init__(s): s.entries, s.ticket = [], 0
    def live(s, w, now): return [(t, c) for t, c in s.entries if t + w > now]
    def look(s, max, w, cap, cost, now):
        live = s.live(w, now); used = sum(c for _, c in live)
        wait, over = 0, used + cost - max
        for t, c in live:
            if over <= 0: break
            over -= c; wait = t + w - now
        return max - used, wait if used + cost > max else 0
    def charge(s, max, w, cap, cost, now):
        s.entries = s.live(w, now) + [(now, cost)]; s.ticket = now if s.ticket < now else s.ticket + 1
    def behind(s, w, now): return bool(s.entries) and s.entries[-1][0] > now
    def ends(s, max, w, cap): return s.entries[-1][0] + w


class Fixed:
    used = until = 0
    def at(s, w, now): return (s.used, s.until) if s.until > now else (0, now + w)
    def look(s, max, w, cap, cost, now):
        used, until = s.at(w, now); return max - used, until - now if used + cost > max else 0
    def charge(s, max, w, cap, cost, now):
        used, s.until = s.at(w, now); s.used = used + cost
    def behind(s, w, now): return s.until - w > now
    def ends(s, max, w, cap): return s.until


class Sliding:
    used = previous = 0; start = None
    def at(s, w, now):
        if s.start is None or now >= s.start + 2 * w: return 0, 0, now
        return (s.used, s.previous, s.start) if now < s.start + w else (0, s.used, s.start + w)
    def look(s, max, w, cap, cost, now):
        u, p, start = s.at(w, now); elapsed = now - start
        all = u + cdiv(p * (w - elapsed), w)
        if all + cost <= max: return max - all, 0
        sunk = lambda room, of: 0 if of <= room else w - room * w // of
        wait = sunk(max - u - cost, p) - elapsed if u + cost <= max else w - elapsed + sunk(max - cost if max > cost else 0, u)
        return max - all, wait
    def charge(s, max, w, cap, cost, now): s.used, s.previous, s.start = s.at(w, now); s.used += cost
    def behind(s, w, now): return s.start is not None and s.start > now
    def ends(s, max, w, cap): return s.start + 2 * w


class Bucket:
    """Tokens missing, as an exact fraction; the leaky bucket is the same as long as `max` stays."""
    units, newest = 0, 0    # window-ths of a token
    def at(s, max, w, now): return max_(0, s.units - (now - s.newest) * max)
    def look(s, max, w, cap, cost, now):
        u = s.at(max, w, now); return cap - cdiv(u, w), max_(0, cdiv(u + cost * w - cap * w, max))
    def charge(s, max, w, cap, cost, now): s.units, s.newest = s.at(max, w, now) + cost * w, now
    def behind(s, w, now): return s.newest > now
    def ends(s, max, w, cap): return s.newest + cdiv(s.units, max)


def max_(a, b): return a if a > b else b


MODELS = {'leaky_bucket': Bucket, 'token_bucket': Bucket, 'fixed_window': Fixed, 'sliding_counter': Sliding, 'ring': Log, 'zset': Log}
WHOLE = {'fixed_window': 16, 'sliding_counter': 24}
SIZE = {'fixed_window': 16, 'ring': 39, 'zset': 16}


def read(name, count, record, max, w, cap, cost, now):
    """What a client makes of a record: remaining after it, and for a refusal how long this cost waits."""
    d = lambda n: struct.unpack_from('<%dd' % n, record)
    stored = count >= 32768
    g = __import__('math').gcd(max, w); per, micros = max // g, w // g
    if name == 'leaky_bucket':
        newest, x, y = map(int, d(3)); u = (x - now) * per + y if x >= now else 0
        return cap - cdiv(u, micros), max_(0, cdiv(u + cost * micros - cap * micros, per))
    if name == 'token_bucket':
        newest, x, y = map(int, d(3)); u = max_(0, x * micros + y - (now - newest) * per)
        return cap - cdiv(u, micros), max_(0, cdiv(u + cost * micros - cap * micros, per))
    if name == 'fixed_window':
        m = Fixed(); m.used, m.until = map(int, d(2)); return m.look(max, w, cap, cost, now)
    if name == 'sliding_counter':
        m = Sliding(); m.used, m.previous, m.start = map(int, d(3)); return m.look(max, w, cap, cost, now)
    if stored:
        used, frees, last = map(int, d(3)); return max - used, frees + w - now
    if name == 'zset':
        return max - int(d(2)[1]), None
    return max - int(struct.unpack_from('<I', record, 3 + 12)[0] * 0 + struct.unpack_from('<d', record, 23)[0]), None


def ends_at(server, key):
    """The millisecond in which the key ends. (PEXPIRETIME is of 7.0.)"""
    if server.has_time:
        return server.command('PEXPIRETIME', key)
    left = server.command('PTTL', key)
    return left if left < 0 else left + int(time.time() * 1000) + 2


def one(server, name, rng, sha, stats, tag):
    w = rng.choice([1000000, 60000000, 7777777, 3600000000])
    max = rng.choice([1, 2, 3, 7, 10, 61, 100, 126]) if name == 'zset' else rng.choice([1, 2, 3, 7, 10, 61, 100, 1000, 1000000])
    cap = max if 'bucket' not in name else rng.choice([1, max, 2 * max, 5 * max, cdiv(max, 3)])
    block = rng.choice([0, 0, w // 2, 3 * w]) if name not in ('ring', 'zset') else 0
    longest = block * rng.choice([1, 4, 5]) if block else 0
    keys = ['%s:%d' % (tag, i) for i in range(rng.choice([1, 1, 2, 5]))]
    models = [MODELS[name]() for _ in keys]
    blocked = [None] * len(keys)     # until, given, strikes
    alive = [False] * len(keys)
    now = int(time.time() * 1e6) + 10 ** 12
    peak = max if 'bucket' not in name else cap
    for step in range(60):
        pace = rng.choice([0, 1, 17, w // (max + 1), w // 3, w, 2 * w]) if rng.random() < 0.8 else 1
        now += rng.randint(0, pace) if pace else 0
        if rng.random() < 0.3:
            # To the very microsecond in which something leaves, or a cell begins.
            m, moments = rng.choice(models), [now // w * w + w]
            if isinstance(m, Log): moments += [t + w for t, _ in m.entries[:2] + m.entries[-1:]]
            if isinstance(m, Fixed): moments += [m.until]
            if isinstance(m, Sliding) and m.start: moments += [m.start + w, m.start + 2 * w]
            moments = [t + rng.choice([-2, -1, 0, 0, 1]) for t in moments]
            now = rng.choice([t for t in moments if now <= t <= now + 2 * w] or [now])
        back = rng.random() < 0.04
        asked = now - rng.randint(1, 2 * w) if back else now
        calls = rng.choice([1, 1, 1, 2, 5, 64])
        cost = 1 if name == 'zset' else rng.choice([1, 1, 1, 2, 3, max_(1, peak // 2)])
        if cost > peak: cost = 1
        operation = 3 if rng.random() < 0.1 else 1
        # Redis removes what has expired: here by the simulated clock.
        for i, key in enumerate(keys):
            if alive[i] and ends_at(server, key) < asked // 1000:
                server.command('DEL', key)
                stats['expired'] += 1
                assert models[i].ends(max, w, cap) <= asked, (name, tag, step, 'an expiry was too early')
                models[i], alive[i] = MODELS[name](), False
                if blocked[i]:
                    assert asked >= blocked[i][0] + (longest if longest > block else 0), (name, tag, step, 'a block was forgotten')
                    blocked[i] = None
        q = scripts.question(max, w, cap, calls=calls, covers=len(keys), cost=cost, block=block, longest=longest, operation=operation)
        reply = server.command('EVALSHA', sha, len(keys), *keys, NUMBER + b'T' + str(asked).encode(), q)
        at, records = scripts.reply(reply, NUMBER, [SIZE.get(name, 24)] * len(keys), WHOLE.get(name, 48))
        assert at == asked
        for i, (count, record) in enumerate(records):
            m, where = models[i], (name, tag, step, i, max, w, cap, cost, calls, block, count)
            ends = m.ends(max, w, cap) if alive[i] else 0
            if alive[i] and blocked[i]:
                ends = max_(ends, blocked[i][0] + (longest if longest > block else 0))
            if count == 65535: raise AssertionError((where, record))
            behind = alive[i] and m.behind(w, asked)
            is_blocked = blocked[i] and blocked[i][0] > asked
            if count == 65534:
                stats['full'] += 1
                lead = name in ('ring', 'zset') and m.ticket - asked + calls > 60000
                ok = behind or (is_blocked and blocked[i][0] - asked > blocked[i][1]) or (not alive[i] and operation == 3) or lead
                # A look at nothing, a clock set back: handed over, and for good reason.
                assert ok or (operation == 3 and ends <= asked), where
                continue
            if is_blocked:
                stats['blocked'] += 1
                assert count >= 32768 and len(record) > 32, where
                until, given, strikes = struct.unpack('<ddd', record[-24:])
                assert (until, given, strikes) == blocked[i], where
                continue
            assert not behind, where
            admitted, was_new = 0, not alive[i]
            room, wait = m.look(max, w, cap, cost, asked)
            if operation == 1:
                while admitted < calls and m.look(max, w, cap, cost, asked)[1] == 0:
                    m.charge(max, w, cap, cost, asked); admitted += 1
            left, wait_after = m.look(max, w, cap, cost, asked)
            if admitted:
                stats['admitted'] += admitted
                alive[i] = True
                assert count == admitted, (where, admitted)
                assert read(name, count, record, max, w, cap, cost, asked)[0] == left, (where, left, read(name, count, record, max, w, cap, cost, asked))
                if name == 'zset': assert struct.unpack('<dd', record)[0] + admitted - 1 == m.ticket, where
                if name == 'ring': assert struct.unpack_from('<d', record, 15)[0] == m.ticket, where
                pttl = ends_at(server, keys[i])
                need = m.ends(max, w, cap)
                horizon = {'fixed_window': w, 'sliding_counter': 2 * w}.get(name, cdiv(cap * w, max) if 'bucket' in name else w)
                extra = max_(0, blocked[i][0] + longest - asked) if blocked[i] else 0
                assert need // 1000 <= pttl <= max_((asked + max_(2 * horizon, extra)) // 1000 + 20, (asked + calls) // 1000 + 2 * horizon // 1000 + 20), (where, need, pttl)
                stats['written'] += 1
                if was_new and 'bucket' in name:
                    assert pttl <= max_(need // 1000 + 3, asked // 1000 + 13), (where, 'a new key outlives its level', need, pttl)
            else:
                stats['refused' if operation == 1 else 'looks'] += 1
                assert count >= 32768, where
                if block and operation == 1:
                    until, given, strikes = struct.unpack('<ddd', record[-24:])
                    was = blocked[i][2] if blocked[i] and asked < blocked[i][0] + longest else 0
                    expect = min(block * 2 ** was, longest)
                    assert (until, given, strikes) == (asked + expect, expect, was + 1), (where, until - asked, given, strikes, expect, was)
                    blocked[i] = (until, given, strikes)
                else:
                    got = read(name, count, record, max, w, cap, cost, asked)
                    assert got[0] == room, (where, got, room)
                    if wait: assert got[1] == wait, (where, got, wait)
        if len(keys) > 1 and rng.random() < 0.02:
            server.command('DEL', keys[0]); models[0], blocked[0], alive[0] = MODELS[name](), None, False


def simulated(source):
    # The time in place of TIME; the rest is as it is.
    source = source.replace("if #number == 8 then\n  stamp = call('TIME')",
                            "if true then\n  local t = string.sub(number, 10) number = string.sub(number, 1, 8) stamp = { string.sub(t, 1, -7), string.sub(t, -6) }")
    return source


if __name__ == '__main__':
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    names = sys.argv[3:] or list(MODELS)
    import os
    server = Server(program=os.environ.get('SERVER', 'redis-server'))
    server.has_time = not isinstance(server.command('PEXPIRETIME', 'x', fails=True), RedisError)
    for name in names:
        sha = server.command('SCRIPT', 'LOAD', simulated(scripts.script(name)))
        stats = dict.fromkeys(['admitted', 'written', 'refused', 'blocked', 'looks', 'full', 'expired'], 0)
        for r in range(rounds):
            one(server, name, random.Random(seed * 1000003 + r), sha, stats, '%s:%d:%d' % (name, seed, r))
        print(name, rounds, 'sequences', stats, flush=True)
    server.close()
