"""Instructions of redis-server for a decision. usage: count.py ROW... (names are matched from the beginning)
1,000 decisions are let go by, then 4,000 are counted (5,000 less 1,000), in one run of the server for all rows."""
import struct, sys
import scripts
from redis_raw import Server

NUMBER = b'12345678'
WINDOW = 600e6


class Trial:
    def __init__(self, name, source=None):
        self.name, self.source = name, source or scripts.script(name)

    def call(self, keys, max, calls=1, **more):
        return [len(keys), *keys, NUMBER, scripts.question(max, WINDOW, calls=calls, covers=len(keys), **more)]


class Listed(Trial):
    """A question for each key."""
    def call(self, keys, max, calls=1, **more):
        return [len(keys), *keys, NUMBER] + [scripts.question(max, WINDOW, calls=calls, **more)] * len(keys)


class Plain(Trial):
    """Any script whose ARGV is given for each key."""
    def __init__(self, name, source, argv):
        self.name, self.source, self.argv = name, source, argv

    def call(self, keys, max, calls=1, **more):
        return [len(keys), *keys] + self.argv(len(keys), max)


SCENES = ['new', 'lone_new', 'used', 'used9', 'used40', 'refused', 'hot', 'lone', 'lone40', 'lone_refused', 'two']


def run(server, side, scene, total=5000, first=1000, deep=2, big=100):
    server.command('FLUSHALL')
    server.command('SCRIPT', 'FLUSH')
    sha = server.command('SCRIPT', 'LOAD', side.source)
    size = 1 if scene.startswith('lone') else 64
    keys = ['rl2:x-600s:count:<%06d>' % i for i in range(6000 if scene in ('new', 'lone_new', 'second') else 1024 if scene == 'used9' else 512)]
    more, max = {}, big
    if scene == 'two':
        more['limits'] = 2
    if scene == 'second':
        deep = 1
    if scene == 'used9':
        deep = 9
    if scene in ('used40', 'lone40'):
        deep = 38
    if scene == 'hot':
        max = 100000
    if 'refused' in scene:
        max, deep = 3, 3
    if scene == 'hot':
        max = 100000

    def batches(count, start=0):
        place, done, groups = start, 0, []
        while done < count:
            if scene in ('hot', 'hot_new'):
                # One key, and 64 calls of it in one question.
                groups.append(['EVALSHA', sha, *side.call(keys[place:place + 1] if scene == 'hot_new' else keys[:1], max, calls=64, **more)])
                done += 64
                place += 1
            else:
                groups.append(['EVALSHA', sha, *side.call([keys[(place + i) % len(keys)] for i in range(size)], max, **more)])
                done += size
                place += size
        return groups, done, place

    def send(groups):
        for group in groups:
            reply = server.command(*group)
        return reply

    place = 0
    if scene not in ('new', 'lone_new', 'hot', 'hot_new'):
        for _ in range(deep):
            send(['EVALSHA', sha, *side.call(keys[i:i + 64], max, **more)] for i in range(0, len(keys), 64))
    groups, done, place = batches(first)
    send(groups)
    groups, done, place = batches(total - first, place)
    server.mark()
    reply = send(groups)
    return server.mark() / done, reply


FLOORS = {
    'get set': "for i=1,#KEYS do call('GET',KEYS[i]) call('SET',KEYS[i],ARGV[i],'PX','60000') end return ''",
    'mget set': "call('MGET',unpack(KEYS)) for i=1,#KEYS do call('SET',KEYS[i],ARGV[i],'PX','60000') end return ''",
    'mget setrange': "call('MGET',unpack(KEYS)) for i=1,#KEYS do call('SETRANGE',KEYS[i],'0',ARGV[i]) end return ''",
}


def sides():
    out = {}
    for name in scripts.COUNTERS + ['ring', 'zset']:
        try:
            out['trial ' + name] = Trial(name)
        except FileNotFoundError:
            pass
    out['limits leaky_bucket'] = Trial('leaky_bucket_limits')
    out['listed leaky_bucket'] = Listed('leaky_bucket')
    for name, source in FLOORS.items():
        source = "local call=redis.call local t=call('TIME') local now=t[1]*1000000+t[2] " + source
        out['floor ' + name] = Plain(name, source, lambda n, max: [b'x' * 24] * n)
    article = ("redis.call('ZREMRANGEBYSCORE',KEYS[1],0,ARGV[1]-ARGV[2]) if redis.call('ZCARD',KEYS[1])<tonumber(ARGV[3]) then "
               "redis.call('ZADD',KEYS[1],ARGV[1],ARGV[4]) redis.call('PEXPIRE',KEYS[1],60000) return 1 end return 0")
    class Article(Trial):
        id = 0
        def call(self, keys, max, calls=1, **more):
            import time
            Article.id += 1
            return [1, keys[0], int(time.time() * 1e6), int(WINDOW), max, Article.id]
    out['article zset'] = Article('', article)
    return out


if __name__ == '__main__':
    import time
    all_sides = sides()
    server = Server(callgrind=True)
    for row in sys.argv[1:]:
        name, _, scenes = row.partition(':')
        for full in all_sides:
            if full.startswith(name):
                for scene in scenes.split(',') if scenes else SCENES:
                    begun = time.time()
                    figure, reply = run(server, all_sides[full], scene)
                    print(f'{full:28} {scene:14} {figure:9.0f}   ({time.time() - begun:.1f} s)', flush=True)
    server.close()
