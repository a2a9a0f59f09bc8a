"""Real executions in Mastra's layout in sandboxes of provider local: looked at while they run
and after they ended; and commands that take too long."""

import os
import signal
import subprocess
import unittest

from support import (
    PROJECT,
    IntegrationTest,
    attach_job,
    processes_below,
    wait_until,
)

START_EXECUTION = os.path.join(PROJECT, "tests", "fixtures", "start-execution")


class Executions(IntegrationTest):
    def start_execution(self, *command, sandbox="box", execution="attempt-1", home=None):
        remote_dir = home or os.path.join(self.root, sandbox, "mastra-app")
        os.makedirs(remote_dir, exist_ok=True)
        subprocess.run(
            [START_EXECUTION, remote_dir, execution, *command],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return os.path.join(remote_dir, ".mastra", "executions", execution)

    def ask(self, job):
        self.enqueue(job)
        return self.wait_reply(job["id"])

    def job(self, job_id, op, **more):
        return attach_job(job_id, **{"op": op, "read": None, **more})

    def test_an_execution_is_attached_while_it_runs_and_after_it_ended(self):
        fifo = os.path.join(self.directory, "end")
        os.mkfifo(fifo)
        where = self.start_execution(
            "sh", "-c", 'echo "it\'s $0"; echo oops >&2; read -r code <"$1"; echo bye; exit "$code"',
            "working", fifo,
        )  # fmt: skip
        self.start_worker(local=True)
        # The program writes after the launcher has recorded that it runs.
        wait_until(
            lambda: os.path.getsize(os.path.join(where, "stderr")), "the execution has written"
        )
        reply = self.ask(self.job("a1", "attach", read={"stdout": 0, "stderr": 2}))
        self.assertTrue(reply.ok, reply.body)
        handle = reply.result
        self.assertEqual("local", handle["provider"])
        self.assertEqual("box", handle["sandbox_id"])
        self.assertEqual("attempt-1", handle["execution_id"])
        self.assertEqual(os.path.join(self.root, "box", "mastra-app"), handle["remote_dir"])
        self.assertIsNone(handle["expires_at_ms"])
        self.assertIn("execute_command", handle["capabilities"])
        self.assertEqual({"state": "running"}, handle["status"])
        self.assertEqual(b"it's working\n", handle["output"]["stdout"]["data"])
        self.assertEqual(b"ps\n", handle["output"]["stderr"]["data"])
        self.assertIs(False, handle["output"]["stdout"]["eof"])
        # Attach with output is one command.
        self.assertEqual(1, reply.body["execs"])
        self.assertEqual({"state": "running"}, self.ask(self.job("s1", "status")).result["status"])
        next_offset = handle["output"]["stdout"]["next_offset"]

        with open(fifo, "w", encoding="utf-8") as file:
            file.write("3\n")
        wait_until(lambda: not os.path.exists(os.path.join(where, "pid")), "the execution's end")
        status = self.ask(self.job("s2", "status")).result["status"]
        self.assertEqual("exited", status["state"])
        self.assertEqual(3, status["exit_code"])
        piece = self.ask(
            self.job("r1", "read_output", stream="stdout", offset=next_offset)
        ).result
        self.assertEqual(b"bye\n", piece["data"])
        self.assertIs(True, piece["eof"])
        self.assertEqual(next_offset + 4, piece["total_bytes"])
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_an_execution_killed_with_its_launcher_is_lost_not_running(self):
        where = self.start_execution("sleep", "1000")
        self.start_worker(local=True)
        self.assertEqual({"state": "running"}, self.ask(self.job("s1", "status")).result["status"])
        for pid in processes_below(os.path.join(self.root, "box")):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not processes_below(self.root), "the execution is gone")
        self.assertTrue(os.path.exists(os.path.join(where, "pid")))
        self.assertEqual("lost", self.ask(self.job("s2", "status")).result["status"]["state"])
        self.stop_workers()

    def test_output_bytes_of_every_value_arrive_as_they_are(self):
        data = bytes(range(256)) * 300
        self.make_sandbox(output=data)
        self.start_worker(local=True)
        reply = self.ask(attach_job("j1"))
        self.assertEqual(data, reply.result["output"]["stdout"]["data"])
        piece = self.ask(
            self.job("j2", "read_output", stream="stdout", offset=255, max_bytes=3)
        ).result
        self.assertEqual(data[255:258], piece["data"])
        self.assertIs(True, piece["truncated"])
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_attach_without_output_runs_the_one_shell_and_no_program(self):
        self.make_sandbox()
        self.gate.close()
        self.start_worker(local=True)
        reply = self.ask(self.job("j1", "attach"))
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual(1, reply.body["execs"])
        self.assertNotIn("output", reply.result)
        self.assertTrue(self.gate.nobody_came())
        self.stop_workers()

    def test_an_execution_that_is_not_there_is_unknown_and_a_sandbox_that_is_not_is_said(self):
        self.make_sandbox()
        self.start_worker(local=True)
        reply = self.ask(self.job("j1", "status", execution_id="attempt-2"))
        self.assertEqual("unknown", reply.result["status"]["state"])
        self.assertEqual("absent", reply.result["status"]["reason"])
        reply = self.ask(self.job("j2", "status", sandbox="gone"))
        self.assertEqual("sandbox_not_found", reply.code)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_two_profiles_of_local_do_not_see_each_others_sandboxes(self):
        second = os.path.join(self.directory, "second")
        os.mkdir(second)
        self.make_sandbox()
        config = self.write_config(
            f"[provider local]\nroot = {self.root}\n\n"
            f"[provider second]\ntype = local\nroot = {second}\n",
            "two.ini",
        )
        self.start_worker(arguments=["--config", config])
        self.assertTrue(self.ask(self.job("j1", "status")).ok)
        reply = self.ask(self.job("j2", "status", provider="second"))
        self.assertEqual("sandbox_not_found", reply.code)
        self.stop_workers()


class Timeouts(IntegrationTest):
    def assert_nothing_runs(self):
        wait_until(lambda: not processes_below(self.root), "nothing runs in the sandbox")

    def test_timeout_ms_ends_the_job_and_what_it_ran(self):
        self.make_sandbox()
        self.gate.close()
        self.start_worker(local=True)
        # The time counts from the job's begin: enough to reach the gate on a slow machine.
        self.enqueue(attach_job("j1", timeout_ms=3000, max_attempts=1))
        self.gate.wait_reached()
        reply = self.wait_reply("j1")
        self.assertFalse(reply.ok)
        self.assertEqual("timeout", reply.code)
        self.assertIs(True, reply.error["retryable"])
        self.assertGreaterEqual(reply.body["run_ms"], 3000)
        self.assert_nothing_runs()
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_a_deadline_that_passes_while_the_job_runs_ends_it(self):
        self.make_sandbox()
        self.gate.close()
        self.start_worker(local=True)
        seconds, micros = self.client.time()
        deadline_ms = seconds * 1000 + micros // 1000 + 4000
        self.enqueue(attach_job("j1", deadline_ms=deadline_ms))
        self.gate.wait_reached()
        self.assertEqual("deadline_exceeded", self.wait_reply("j1").code)
        self.assert_nothing_runs()
        self.stop_workers()
        self.assert_queue_is_empty()


class Stubborn(Timeouts):
    """The same where the command ignores TERM: KILL follows."""

    ignore_term = True


if __name__ == "__main__":
    unittest.main(verbosity=2)
