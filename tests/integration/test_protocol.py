"""The examples of docs/protocol.md are run as they stand there."""

import os
import re
import subprocess
import sys
import unittest

from support import CAPABILITY_MESSAGE, CLEAN_ENVIRONMENT, DEADLINE_S, PROJECT, IntegrationTest

DOCUMENT = os.path.join(PROJECT, "docs", "protocol.md")


def example(name):
    """The code block that follows <!-- test:NAME -->; without the marker there is no test."""
    marker = f"<!-- test:{name} -->"
    try:
        with open(DOCUMENT, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    if marker not in text:
        raise unittest.SkipTest(f"docs/protocol.md has no marker {marker} yet")
    return re.match(r"\s*```\w*\n(.*?)^```$", text.partition(marker)[2], re.S | re.M).group(1)


class Examples(IntegrationTest):
    queue = "default"

    def run_example(self, command, **environment):
        done = subprocess.run(
            command,
            env={
                **CLEAN_ENVIRONMENT,
                "ATTACHD_REDIS_URL": self.server.url,
                "ATTACHD_QUEUE": self.queue,
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
        )
        return done.returncode, done.stdout

    def python_example(self):
        path = os.path.join(self.directory, "attach.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(example("protocol-python"))
        return [sys.executable, path]

    def test_the_python_example_attaches_to_an_execution(self):
        program = self.python_example()
        self.make_sandbox(output=b"seen by the example\n")
        self.start_worker(local=True)
        code, printed = self.run_example([*program, "local", "box", "attempt-1"])
        self.assertEqual(0, code, printed)
        self.assertIn("seen by the example", printed)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_the_python_example_shows_an_error_and_can_be_run_again(self):
        program = self.python_example()
        self.start_worker()
        for _ in range(2):
            code, printed = self.run_example([*program, "cua-fleet", "vm-1", "attempt-1"])
            self.assertEqual(1, code, printed)
            self.assertIn("capability_unavailable", printed)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_the_redis_cli_example_is_answered(self):
        script = example("protocol-redis-cli")
        # The example speaks to the default port: this redis-cli knows better.
        with open(os.path.join(self.gate.bin, "redis-cli"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec /usr/bin/redis-cli -s {self.server.socket} "$@"\n')
            os.fchmod(file.fileno(), 0o755)
        self.start_worker()
        code, printed = self.run_example(["sh", "-c", script], PATH=self.gate.path)
        self.assertEqual(0, code, printed)
        (reply,) = self.wait_replies(1, name="cli")
        self.assertEqual("cli-1", reply.id)
        self.assertEqual(CAPABILITY_MESSAGE, reply.error["message"])
        self.assertIn("executeCommand", printed)
        self.stop_workers()
        self.assert_queue_is_empty()


if __name__ == "__main__":
    unittest.main(verbosity=2)
