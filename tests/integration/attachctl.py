"""attachctl as a person runs it: below a test, and with a real terminal."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import tempfile
import termios
import time

import msgpack

from support import BUILD, CLEAN_ENVIRONMENT, DEADLINE_S, REPORTS, WORKER_SH, DeployTest, targz

ATTACHCTL = os.path.join(BUILD, "attachctl")


# Not in Python's termios yet.
TIOCSPTLCK = 0x40045431
TIOCGPTPEER = 0x5441


def open_terminal():
    """Both ends of a new pseudo-terminal. Not every container has devpts where openpty looks
    for it: then one of our own, which is gone with the two ends."""
    with contextlib.suppress(OSError):
        return pty.openpty()
    with tempfile.TemporaryDirectory(prefix="attachd-pts-") as directory:
        subprocess.run(
            ["mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", directory],
            check=True)
        try:
            ours = os.open(os.path.join(directory, "ptmx"), os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(ours, TIOCSPTLCK, struct.pack("i", 0))
            return ours, fcntl.ioctl(ours, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)


class Terminal:
    """A terminal of so many columns, for what one process writes."""

    def __init__(self, columns=100):
        self.ours, self.theirs = open_terminal()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.text = b""

    def read_until(self, wanted):
        end = time.monotonic() + DEADLINE_S
        while wanted not in self.text:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.ours], [], [], max(0, left))
            if not ready:
                raise AssertionError(f"no {wanted!r} in {self.text!r}")
            self.text += os.read(self.ours, 4096)

    def read_rest(self):
        """After the process' end: all that it has written."""
        os.close(self.theirs)
        with contextlib.suppress(OSError):  # EIO: nobody holds the other end
            while chunk := os.read(self.ours, 4096):
                self.text += chunk
        os.close(self.ours)
        return self.text


class AttachctlTest(DeployTest):
    """With an archive, app.tgz, of a run.sh that says hello and stays."""

    def setUp(self):
        super().setUp()
        self.archive = os.path.join(self.directory, "app.tgz")
        self.pack({"run.sh": (0o755, WORKER_SH)})

    def pack(self, files):
        with open(self.archive, "wb") as file:
            file.write(targz(files))

    def begin(self, command, *words, execution="e1", environment=None, **options):
        """Of no execution: None."""
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        process = subprocess.Popen(
            [ATTACHCTL, command, "--provider", "local", "--sandbox", "box",
             *(["--execution-id", execution] if execution else []), *words],
            env={**CLEAN_ENVIRONMENT, "ATTACHD_REDIS_URL": self.server.url,
                 "ATTACHD_QUEUE": self.queue, **(environment or {})},
            **options,
        )
        self.own_pids.add(process.pid)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process, data=None):
        out, err = process.communicate(data, timeout=DEADLINE_S)
        self.assertNotRegex((err or b"").decode(errors="replace"), REPORTS)
        return process.returncode, out, err

    def ctl(self, *words, data=None, **options):
        if data is not None:
            options["stdin"] = subprocess.PIPE
        return self.finish(self.begin(*words, **options), data)

    def job(self):
        """What the only job on the stream says."""
        ((_, fields),) = self.client.xrange(self.key("jobs"))
        return msgpack.unpackb(fields[b"job"])
