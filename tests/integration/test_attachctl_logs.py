"""attachctl logs, with a real worker, a real terminal and real readers."""

import os
import select
import signal
import subprocess
import time
import unittest

from attachctl import AttachctlTest, Terminal
from support import DEADLINE_S

# Says what comes through the FIFO "say", line by line, and ends with "end CODE". Opened for
# both, so that no line is lost with the last writer, and none waits for the next reader.
SPEAKER_SH = b"""#!/bin/sh
exec 3<>say
echo first
echo oops >&2
while read -r word rest <&3; do
    case $word in
    end) exit "$rest" ;;
    err) printf '%s\\n' "$rest" >&2 ;;
    out) printf '%s\\n' "$rest" ;;
    esac
done
"""


class LogsTest(AttachctlTest):
    lease_ms = 2000

    def setUp(self):
        super().setUp()
        self.worker = self.start_worker(local=True)

    def deploy_speaker(self):
        os.mkdir(self.app)
        os.mkfifo(os.path.join(self.app, "say"))
        self.deployed(files={"run.sh": (0o755, SPEAKER_SH)})

    def say(self, line):
        with open(os.path.join(self.app, "say"), "w", encoding="utf-8") as file:
            file.write(line + "\n")

    def deploy_printing(self, script, execution="e1"):
        """What it prints is there once this returns, and all of it."""
        self.deployed(job_id=f"d-{execution}", execution=execution,
                      files={"run.sh": (0o755, b"#!/bin/sh\n" + script)})
        status, _, err = self.ctl("logs", "--follow", "--quiet", execution=execution)
        self.assertEqual(0, status, err)

    @staticmethod
    def read_until(pipe, wanted):
        """All that came, once `wanted` is in it."""
        end = time.monotonic() + DEADLINE_S
        text = b""
        while wanted not in text:
            ready, _, _ = select.select([pipe], [], [], max(0, end - time.monotonic()))
            chunk = os.read(pipe.fileno(), 65536) if ready else b""
            if not chunk:
                raise AssertionError(f"no {wanted!r} in {text!r}")
            text += chunk
        return text


class Logs(LogsTest):
    def test_both_outputs_are_written_as_they_are(self):
        self.deploy_printing(b"printf 'a\\0\\033[2J\\377'; echo err >&2; exit 3\n")
        status, out, err = self.ctl("logs")
        self.assertEqual((0, b"a\0\x1b[2J\xff", b"err\n"), (status, out, err))

    def test_a_long_output_comes_whole(self):
        self.deploy_printing(b"head -c 3000000 /dev/zero | tr '\\0' x\n")
        status, out, err = self.ctl("logs")
        self.assertEqual((0, b""), (status, err))
        self.assertEqual(b"x" * 3_000_000, out)

    def test_without_follow_it_ends_at_what_is_there(self):
        self.deploy_speaker()
        following = self.begin("logs", "-f")
        self.read_until(following.stdout, b"first\n")
        self.read_until(following.stderr, b"oops\n")
        self.assertEqual((0, b"first\n", b"oops\n"), self.ctl("logs"))

    def test_an_execution_that_is_not_there_is_told(self):
        os.mkdir(self.app)
        for words in (("logs",), ("logs", "--follow")):
            status, out, err = self.ctl(*words, execution="none")
            self.assertEqual((1, b""), (status, out))
            self.assertIn(b"there is no execution none", err)

    def test_a_stopped_sandbox_is_told_and_woken_where_that_is_asked(self):
        self.deploy_printing(b"echo here\n")
        self.assertEqual(0, self.ctl("stop", execution=None)[0])
        status, out, err = self.ctl("logs", "-f")
        self.assertEqual((1, b""), (status, out))
        self.assertIn(b"--wake", err)
        self.assertEqual((0, b"here\n"), self.ctl("logs", "--wake")[:2])

    def test_an_error_answer_is_shown_on_standard_error(self):
        status, out, err = self.ctl("logs", "--set", "no=such")
        self.assertEqual((1, b""), (status, out))
        self.assertIn(b"invalid_argument", err)

    def test_without_a_worker_it_ends_in_time(self):
        self.stop_workers()
        for words in (("logs",), ("logs", "-f")):
            status, out, err = self.ctl(*words, "--timeout-ms", "100")
            self.assertEqual((3, b""), (status, out))
            self.assertIn(b"check that an attachd runs", err)


class Follow(LogsTest):
    def test_what_is_printed_comes_while_it_runs_until_the_end(self):
        self.deploy_speaker()
        following = self.begin("logs", "--follow")
        self.assertEqual(b"first\n", self.read_until(following.stdout, b"first\n"))
        self.assertEqual(b"oops\n", self.read_until(following.stderr, b"oops\n"))
        self.say("out second")
        self.assertEqual(b"second\n", self.read_until(following.stdout, b"second\n"))
        self.say("err third")
        self.assertEqual(b"third\n", self.read_until(following.stderr, b"third\n"))
        self.say("end 7")
        status, out, err = self.finish(following)
        self.assertEqual((0, b""), (status, out))
        self.assertEqual(b"attachctl: exited, exit code 7\n", err)

    def test_it_goes_on_when_the_worker_is_killed(self):
        self.deploy_speaker()
        following = self.begin("logs", "-f", "--timeout-ms", "500")
        self.read_until(following.stdout, b"first\n")
        self.worker.kill()
        said = self.read_until(following.stderr, b"trying again")
        self.say("out second")
        self.start_worker(local=True)
        self.read_until(following.stdout, b"second\n")
        self.say("end 0")
        status, _, err = self.finish(following)
        self.assertEqual(0, status, err)
        self.assertEqual(1, (said + err).count(b"trying again"))

    def test_it_goes_on_when_redis_is_away_for_a_while(self):
        self.deploy_speaker()
        following = self.begin("logs", "-f", "--timeout-ms", "500")
        self.read_until(following.stdout, b"first\n")
        self.server.kill()
        self.read_until(following.stderr, b"trying again")
        self.server.start()
        self.say("out second")
        self.read_until(following.stdout, b"second\n")
        self.say("end 0")
        self.assertEqual(0, self.finish(following)[0])

    def test_an_interrupted_one_ends_as_by_the_signal_and_says_nothing(self):
        self.deploy_speaker()
        following = self.begin("logs", "-f")
        self.read_until(following.stdout, b"first\n")
        self.read_until(following.stderr, b"oops\n")
        following.send_signal(signal.SIGINT)
        self.assertEqual((-signal.SIGINT, b"", b""), self.finish(following))

    def test_a_reader_that_has_seen_enough_ends_it(self):
        self.deploy_speaker()
        following = self.begin("logs", "-f", stderr=subprocess.DEVNULL)
        self.read_until(following.stdout, b"first\n")
        following.stdout.close()
        following.stdout = None  # so that nobody reads what is left
        self.say("out second")
        self.assertEqual(0, following.wait(DEADLINE_S))

    def test_no_output_steers_a_terminal(self):
        self.deploy_speaker()
        terminal = Terminal()
        following = self.begin("logs", "-f", stdout=terminal.theirs, stderr=terminal.theirs)
        terminal.read_until(b"first")
        self.say("err \033]0;owned\007")
        terminal.read_until(b"\\x1b]0;owned\\x07")
        self.say("out gr\u00fc\u00dfe")
        terminal.read_until("gr\u00fc\u00dfe".encode())
        self.say("end 0")
        self.assertEqual(0, self.finish(following)[0])
        text = terminal.read_rest()
        self.assertTrue(text.endswith(b"attachctl: exited, exit code 0\r\n"), text)
        self.assertNotIn(b"\x1b", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
