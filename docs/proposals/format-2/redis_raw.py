"""A redis-server of one's own, and a client over a raw socket."""
import os, shutil, signal, socket, subprocess, tempfile, time


class Server:
    """redis-server on a unix socket, under callgrind if asked; ends with `close`."""

    def __init__(self, callgrind=False, program='redis-server', module=None):
        self.dir = tempfile.mkdtemp(prefix='trial-')
        command = [shutil.which(program) or program, '--port', '0', '--unixsocket', self.dir + '/socket', '--save', '',
                   '--appendonly', 'no', '--hz', '1', '--dir', self.dir]
        if module:
            command += ['--loadmodule', module]
        if callgrind:
            # A dump is written, and the counts start at 0, at each ECHO, which no script calls.
            command = ['nice', 'valgrind', '--tool=callgrind', '--callgrind-out-file=' + self.dir + '/counts',
                       '--dump-before=echoCommand'] + command
        self.log = open(self.dir + '/log', 'wb')
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=self.dir)
        self.dumps = 0
        for _ in range(600):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.dir + '/socket')
                break
            except OSError:
                time.sleep(0.1)
        self.file = self.socket.makefile('rb')
        self.command('PING')

    def read(self):
        line = self.file.readline()
        kind, value = line[:1], line[1:-2]
        if kind == b'-':
            return RedisError(value.decode('latin1'))
        if kind == b'+':
            return value
        if kind == b':':
            return int(value)
        if kind == b'$':
            size = int(value)
            return None if size < 0 else self.file.read(size + 2)[:-2]
        if kind == b'*':
            return [self.read() for _ in range(int(value))]
        raise EOFError(line)

    def send(self, *calls):
        self.socket.sendall(b''.join(encode(call) for call in calls))

    def command(self, *arguments, fails=False):
        self.send(arguments)
        reply = self.read()
        if isinstance(reply, RedisError) and not fails:
            raise reply
        return reply

    def mark(self):
        """Instructions since the last mark."""
        self.command('ECHO', 'x')
        self.dumps += 1
        path = f'{self.dir}/counts.{self.dumps}'
        for _ in range(600):
            if os.path.exists(path):
                for line in open(path):
                    if line.startswith(('totals:', 'summary:')):
                        return int(line.split()[1])
            time.sleep(0.05)
        raise FileNotFoundError(path)

    def close(self, keep=False):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if not keep:
            shutil.rmtree(self.dir)


class RedisError(Exception):
    pass


def encode(arguments):
    out = [b'*%d\r\n' % len(arguments)]
    for argument in arguments:
        if not isinstance(argument, bytes):
            argument = str(argument).encode()
        out.append(b'$%d\r\n%s\r\n' % (len(argument), argument))
    return b''.join(out)
