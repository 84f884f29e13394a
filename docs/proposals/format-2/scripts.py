"""The trial's scripts, put together."""
import math, os, re, struct

HERE = os.path.dirname(os.path.abspath(__file__)) + '/lua/'


def text(name):
    return open(HERE + name).read()


def parts(name):
    found, current = {}, None
    for line in text(name + '.parts').splitlines():
        head = re.match(r'^([A-Z]+):\s*(.*)$', line)
        if head:
            current = head.group(1)
            found[current] = head.group(2)
        else:
            found[current] += '\n' + line
    return found


def expiry(source):
    return re.sub(r'EXPIRE\((\w+)\)', r"string.format('%d', ((\1 > least and \1 or least) - base) / 1000)", source)


COUNTERS = ['leaky_bucket', 'token_bucket', 'fixed_window', 'sliding_counter']


def script(name):
    if name in COUNTERS:
        body = text('counters.lua')
        for part, source in parts(name).items():
            body = body.replace('@' + part, source.strip('\n'))
    else:
        body = text(name + '.lua')
    return expiry(text('head.lua') + body + text('foot.lua'))


def question(max, window, capacity=None, calls=1, covers=1, cost=1, block=0, longest=0, operation=1, layout=0, limits=1):
    return (struct.pack('<BBHHBddd', operation, layout, calls, covers, limits, cost, block, max_(longest, block))
            + struct.pack('<dddd', max, window, capacity or max, math.gcd(int(max), int(window))) * limits)


def max_(a, b):
    return a if a > b else b


def reply(data, number, sizes, whole=48):
    """Time, and for each record its count and bytes. `sizes`: of an admitted record, for each."""
    assert data[:8] == number, data
    now, = struct.unpack_from('<d', data, 8)
    counts = struct.unpack_from('<%dH' % len(sizes), data, 16)
    at, out = 16 + 2 * len(sizes), []
    for count, size in zip(counts, sizes):
        if count == 65534:
            size = 0
        elif count == 65535:
            size = 2 + struct.unpack_from('<H', data, at)[0]
        elif count >= 32768:
            size = count - 32768
        elif count >= 16384:
            size, count = whole, count - 16384
        out.append((count, data[at:at + size]))
        at += size
    assert at == len(data), (at, len(data))
    return now, out
