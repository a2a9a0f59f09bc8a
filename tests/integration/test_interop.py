"""Executions change hands between attachd and Mastra's deployer, whose rules the programs
in tests/fixtures follow."""

import base64
import os
import subprocess
import unittest

from support import PROJECT, DeployTest, attach_job, deploy_job, processes_below, wait_until

FIXTURES = os.path.join(PROJECT, "tests", "fixtures")


class Interop(DeployTest):
    def original(self, action, execution="e1"):
        """What the original's client sees or does."""
        command = [os.path.join(FIXTURES, "original-client"), action, self.app, execution]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def original_deploys(self, execution, *command):
        subprocess.run(
            [os.path.join(FIXTURES, "start-execution"), self.app, execution, *command], check=True
        )

    def job(self, op, execution, job_id, **more):
        job = {**attach_job(job_id, execution_id=execution), "op": op, **more}
        if op != "attach":
            del job["read"]
        reply = self.run_job(job)
        self.assertTrue(reply.ok, reply.body)
        return reply.result

    def test_the_original_follows_and_ends_what_attachd_deployed(self):
        self.start_worker(local=True)
        self.deployed(args=["x"])
        self.assertEqual(b"running|e1\n", self.original("status"))
        wait_until(lambda: self.read(".mastra/executions/e1/stdout"), "output")
        size, _, text = self.original("output").partition(b"\n")
        self.assertEqual(b"hello  x\n", base64.b64decode(text))
        self.assertEqual(9, int(size))
        self.original("cancel")
        wait_until(lambda: not processes_below(self.app), "the end")
        launcher = os.path.join(self.execution(), "attachd.launcher")
        wait_until(lambda: not os.path.exists(launcher), "the launcher's end")
        # The launcher, which ended after the client wrote, has not written over it.
        self.assertEqual(b"cancelled|e1|TERM\n", self.original("status"))
        self.assertEqual("cancelled", self.job("status", "e1", "s1")["status"]["state"])

    def test_the_original_sees_the_end_of_what_attachd_deployed(self):
        self.start_worker(local=True)
        for number, (script, record) in enumerate(
            (
                (b"exit 3", "exited|%s|3|\n"),
                (b"kill -TERM $$", "exited|%s|143|SIGTERM\n"),
                (b"kill -KILL $$", "exited|%s|137|SIGKILL\n"),
                (b"exit 200", "exited|%s|200|\n"),
            )
        ):
            name = f"e{number}"
            files = {"run.sh": (0o755, b"#!/bin/sh\n" + script + b"\n")}
            self.deployed(f"d{number}", execution=name, files=files)
            expected = (record % name).encode()
            wait_until(lambda: self.original("status", name) == expected, f"the end of {name}")

    def test_a_program_whose_name_has_blanks_is_running_for_both(self):
        self.start_worker(local=True)
        files = {"my worker": (0o755, b"#!/bin/sh\nwhile :; do sleep 1; done\n")}
        self.deployed(files=files, command="./my worker")
        self.assertEqual(b"running|e1\n", self.original("status"))
        self.assertEqual("running", self.job("status", "e1", "s1")["status"]["state"])
        self.assertEqual("cancelled", self.job("cancel", "e1", "c1")["status"]["state"])

    def test_attachd_follows_and_ends_what_the_original_deployed(self):
        self.start_worker(local=True)
        os.makedirs(self.app)
        self.original_deploys("m1", "sh", "-c", "echo made; exec sleep 600")
        result = self.job("attach", "m1", "a1", read={"stdout": 0})
        self.assertEqual("running", result["status"]["state"])
        self.assertEqual(b"made\n", result["output"]["stdout"]["data"])
        self.assertEqual("cancelled", self.job("cancel", "m1", "c1")["status"]["state"])
        self.assertEqual(b"cancelled|m1|TERM\n", self.original("status", "m1"))
        self.assertEqual([], processes_below(self.app))

    def test_a_lock_of_attachd_keeps_the_original_out(self):
        self.start_worker(local=True)
        self.gate_file = os.path.join(self.box, "go")
        os.mkfifo(self.gate_file)
        files = {"package.json": b"{}", "run.sh": (0o755, b"#!/bin/sh\nexec sleep 600\n")}
        self.enqueue(
            deploy_job("d1", files=files, install_command=f"read line <'{self.gate_file}'")
        )
        lock = os.path.join(self.app, ".mastra-install-lock")
        wait_until(lambda: os.path.isdir(lock), "the install")
        self.assertRaises(FileExistsError, os.mkdir, lock)
        with open(self.gate_file, "w", encoding="ascii") as gate:
            gate.write("go\n")
        self.assertTrue(self.wait_reply("d1").ok)
        self.assertFalse(os.path.exists(lock))


if __name__ == "__main__":
    unittest.main()
