"""A refund by hand without low water: the newest charge gives back min(cost, level); any other max(0, cost - drained since), at most the
level. Is never more free afterwards than if the refunded calls had not come? And how much comes back, beside the low water of today?"""
import random
from fractions import Fraction as F


def level_of(charges, now):
    level, at = F(0), 0
    for t, c in charges:
        level, at = max(F(0), level - (t - at)) + c, t
    return max(F(0), level - (now - at))


def run(rng):
    x, newest = F(0), 0              # the level at `newest`
    charges, refunded = [], set()
    now, cap = 0, rng.choice([3, 10, 50])
    given = wanted = best = F(0)
    for _ in range(40):
        now += rng.choice([0, 0, 1, 2, rng.randint(0, cap)])
        level = max(F(0), x - (now - newest))
        if rng.random() < 0.6 or not charges:
            c = rng.randint(1, max(1, cap // 2))
            if level + c <= cap:
                x, newest = level + c, now
                charges.append((now, c))
        else:
            i = rng.choice([i for i in range(len(charges)) if i not in refunded] or [None])
            if i is None: continue
            t, c = charges[i]
            amount = min(F(c), level) if t == newest else min(max(F(0), F(c) - (now - t)), level)
            most = level - level_of([ch for j, ch in enumerate(charges) if j not in refunded and j != i], now)
            refunded.add(i)
            x -= amount
            given += amount; wanted += c; best += max(F(0), most)
        actual = max(F(0), x - (now - newest))
        without = level_of([ch for j, ch in enumerate(charges) if j not in refunded], now)
        assert actual >= without, (charges, refunded, now, actual, without)
    return given, best, wanted


if __name__ == "__main__":
  total = [F(0)] * 3
  for seed in range(20000):
      total = [a + b for a, b in zip(total, run(random.Random(seed)))]
  print('20,000 sequences: given back %.3f of the cost, %.3f of what could have been' % (total[0] / total[2], total[0] / total[1]))
