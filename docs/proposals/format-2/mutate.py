"""Is each of these mistakes noticed by exact.py?"""
import random, sys
import exact, scripts
from redis_raw import Server
M = [('leaky_bucket', 'x < ends and is_server', 'is_server'), ('leaky_bucket', 'if x >= ends then', 'if false then'), ('token_bucket', 'if missing > (ends - now) * per then', 'if false then'), ('leaky_bucket', 'if x < now then', 'if false then'), ('leaky_bucket', 'not (newest <= now) or', ''),
     ('leaky_bucket', "local needed = ends > x and ends or x + 1", 'local needed = x + 1'), ('leaky_bucket', 'spare >= weight', 'spare > weight'),
     ('leaky_bucket', '2 ^ strikes', '2 ^ (strikes + 1)'), ('token_bucket', 'missing <= (ends - now) * per', 'true'), ('token_bucket', 'y = missing % micros', 'y = 0'),
     ('fixed_window', 'not is_over and is_server', 'is_server'), ('fixed_window', 'local is_over = ends <= now', 'local is_over = ends < now'),
     ('sliding_counter', 'elapsed < 2 * window', 'elapsed <= 2 * window'), ('sliding_counter', 'not rolls and is_server', 'is_server'),
     ('ring', 'local is_covered = until_then <= ends', 'local is_covered = true'), ('ring', 'free_at > cut then', 'free_at >= cut then'), ('ring', 'if ticket <= cut then', 'if ticket < cut + 2 then'),
     ('ring', 'ticket - lead > now', 'false'), ('zset', 'elseif live < 2 or newest < cell then', 'elseif newest < cell then'), ('zset', 'elseif live < 2 or newest < cell then', 'elseif live < 2 then'),
     ('zset', "if leaves + 0 > cut then", "if leaves + 0 >= cut then"), ('zset', "+ 0 > now then", "+ 0 > 2 * now then"), ('zset', 'if last >= cell + window then', 'if false then')]
s = Server(); s.has_time = True
for name, old, new in M:
    src = scripts.script(name); assert old in src, (name, old)
    sha = s.command('SCRIPT', 'LOAD', exact.simulated(src.replace(old, new)))
    found = None
    for r in range(300):
        try:
            exact.one(s, name, random.Random(r), sha, dict.fromkeys(['admitted', 'written', 'refused', 'blocked', 'looks', 'full', 'expired'], 0), 'm%d:%s:%d' % (M.index((name, old, new)), name, r))
        except Exception as e:
            found = r; break
    print('noticed in sequence %s' % found if found is not None else 'NOT NOTICED', name, '|', old, '->', new, flush=True)
s.close()
