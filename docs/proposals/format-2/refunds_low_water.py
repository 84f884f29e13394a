"""As refunds.py, with the low water of today in the place of the bound; window = cap (burst = max)."""
import random
from fractions import Fraction as F
from refunds import level_of
NONE = F(10 ** 9)

def run(rng, soon):
    x = [F(0), F(0)]; newest = [0, 0]; charged = 0
    older = [0, NONE]; newer = [0, NONE]
    charges, refunded = [[], []], [set(), set()]
    now, cap = 0, rng.choice([3, 10, 50])
    out = [F(0), F(0)]; wanted = best = F(0)
    # Both see the same calls; each admits what it has room for.
    for _ in range(40):
        now += rng.choice([0, 0, 1, 2, rng.randint(0, cap)])
        level = [max(F(0), x[k] - (now - newest[k])) for k in (0, 1)]
        if rng.random() < 0.6 or not charges[0]:
            c = rng.randint(1, max(1, cap // 2))
            if max(level) + c <= cap:
                for k in (0, 1):
                    x[k], newest[k] = level[k] + c, now
                    charges[k].append((now, c))
                l = level[1]
                if l == 0: older, newer = [now, NONE], [now, NONE]
                else:
                    if l < newer[1]: newer[1] = l; older[1] = min(older[1], l)
                    if now >= newer[0] + cap: older, newer = newer, [now, NONE]
                charged = now
        else:
            free = [i for i in range(len(charges[0])) if i not in refunded[0] and (not soon or now - charges[0][i][0] <= cap // 4)]
            if not free: continue
            i = rng.choice(free); t, c = charges[0][i]
            most = level[1] - level_of([ch for j, ch in enumerate(charges[1]) if j not in refunded[1] and j != i], now)
            a = min(F(c), level[0]) if t == newest[0] else min(max(F(0), F(c) - (now - t)), level[0])
            low = NONE if t >= charged else newer[1] if t >= newer[0] else older[1] if t >= older[0] else F(0)
            b = min(F(c), low, level[1])
            x[0] -= a; x[1] = level[1] - b; newest[1] = now
            if t < charged:
                for m in (older, newer):
                    if m[1] < NONE: m[1] = max(F(0), m[1] - b)
            for k, v in ((0, a), (1, b)):
                out[k] += v; refunded[k].add(i)
            wanted += c; best += max(F(0), most)
    return out[0], out[1], best, wanted

for soon in (False, True):
    total = [F(0)] * 4
    for seed in range(8000):
        total = [p + q for p, q in zip(total, run(random.Random(seed), soon))]
    print('soon (a quarter of the window)' if soon else 'any time', 'bound %.3f, low water %.3f of the cost; what could be given back %.3f' % tuple(float(v / total[3]) for v in total[:3]))
