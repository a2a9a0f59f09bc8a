"""A worker that is killed at any step of a job: another answers it, once."""

import contextlib
import os
import signal
import unittest

from support import (
    WORKER_SH,
    IntegrationTest,
    attach_job,
    deploy_job,
    files_below,
    processes_below,
    wait_until,
)


def cancel_job(job_id, sandbox):
    job = attach_job(job_id, sandbox=sandbox, execution_id="e1")
    del job["read"]
    return {**job, "op": "cancel"}


class Kill(IntegrationTest):
    lease_ms = 400  # what a killed worker held comes to another after this, for each step

    def setUp(self):
        super().setUp()
        self.trace = os.path.join(self.directory, "steps")

    def hooked(self, op, at=0):
        return {
            "ATTACHD_TEST_KILL_OP": op,
            "ATTACHD_TEST_KILL_AT": str(at),
            "ATTACHD_TEST_KILL_TRACE": self.trace,
        }

    def steps_of(self, job, op):
        """How many steps the job has where nobody is killed."""
        worker = self.start_worker(local=True, environment=self.hooked(op))
        self.enqueue(job)
        reply = self.wait_reply(job["id"])
        self.assertTrue(reply.ok, reply.body)
        worker.stop()
        with open(self.trace, encoding="ascii") as trace:
            return len(trace.readlines())

    def kill_at(self, step, job, op):
        """Kills the first worker at that step; the reply is the second's, unless the first
        had answered already. How many steps there are differs a little with what a child's
        end is seen by first: the last may not come."""
        first = self.start_worker(local=True, environment=self.hooked(op, step))
        self.enqueue(job)
        wait_until(lambda: not first.is_running or self.replies(), f"the kill at step {step}")
        if first.is_running:
            first.stop()
        else:
            first.wait()
        second = self.start_worker(local=True)
        reply = self.wait_reply(job["id"])
        second.stop()
        self.assert_answered_once([job["id"]])
        self.assert_queue_is_empty()
        return reply

    def each_step(self, op, job_of, look=lambda reply, job: None):
        """Runs the job once to count its steps, then once for each of them with a kill."""
        steps = self.steps_of(job_of(0), op)
        self.assertGreater(steps, 5)
        for step in range(1, steps + 1):
            with self.subTest(step=step):
                self.client.flushall()
                job = job_of(step)
                reply = self.kill_at(step, job, op)
                self.assertTrue(reply.ok, reply.body)
                look(reply, job)

    def finish(self, job):
        """A job that comes before the one whose worker is killed."""
        worker = self.start_worker(local=True)
        self.enqueue(job)
        self.assertTrue(self.wait_reply(job["id"]).ok)
        worker.stop()
        self.client.flushall()

    def end_executions(self):
        for pid in processes_below(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def starts(self, sandbox):
        with open(os.path.join(self.root, sandbox, "mastra-app", "starts"), "rb") as file:
            return len(file.read().splitlines())

    def left_over(self, sandbox):
        below = os.path.join(self.root, sandbox)
        return [
            os.path.relpath(path, below)
            for path in files_below(below)
            if "bundle.attachd" in path
            or "attachd.lock" in path
            or path.endswith("-lock")
            or (path.endswith(".attachd") and "install-hash" not in path)
        ]

    def test_an_attach_is_answered_once_wherever_its_worker_is_killed(self):
        self.make_sandbox()
        self.each_step("attach", lambda step: attach_job(f"j{step}"))

    def test_a_deploy_makes_one_execution_wherever_its_worker_is_killed(self):
        def job_of(step):
            os.mkdir(os.path.join(self.root, f"box{step}"))
            return deploy_job(
                f"j{step}",
                sandbox=f"box{step}",
                files={"run.sh": (0o755, WORKER_SH), "package.json": b"{}"},
                install_command="echo ran >>installs",
                input={"type": "stdin", "data": b"line"},
            )

        def look(reply, job):
            sandbox = job["sandbox"]["id"]
            self.assertEqual("running", reply.result["status"]["state"])
            wait_until(lambda: self.starts(sandbox), "the start")
            self.assertEqual(1, self.starts(sandbox))
            self.assertEqual([], self.left_over(sandbox))
            self.end_executions()

        try:
            self.each_step("deploy", job_of, look)
        finally:
            self.end_executions()

    def test_a_relaunch_makes_one_execution_wherever_its_worker_is_killed(self):
        def job_of(step):
            sandbox = f"box{step}"
            os.mkdir(os.path.join(self.root, sandbox))
            self.finish(deploy_job(f"d{step}", sandbox=sandbox))
            self.finish(cancel_job(f"c{step}", sandbox))
            return {
                "v": 1,
                "id": f"j{step}",
                "op": "relaunch",
                "sandbox": {"provider": "local", "id": sandbox},
                "execution_id": "e2",
                "from_execution_id": "e1",
                "input": {"type": "stdin", "data": b"again"},
            }

        def look(reply, job):
            sandbox = job["sandbox"]["id"]
            self.assertEqual("running", reply.result["status"]["state"])
            wait_until(lambda: self.starts(sandbox) > 1, "the second start")
            self.assertEqual(2, self.starts(sandbox))
            self.assertEqual([], self.left_over(sandbox))
            self.end_executions()

        try:
            self.each_step("relaunch", job_of, look)
        finally:
            self.end_executions()

    def test_a_cancel_ends_the_execution_wherever_its_worker_is_killed(self):
        def job_of(step):
            sandbox = f"box{step}"
            os.mkdir(os.path.join(self.root, sandbox))
            self.finish(deploy_job(f"d{step}", sandbox=sandbox))
            return cancel_job(f"j{step}", sandbox)

        def look(reply, job):
            self.assertEqual("cancelled", reply.result["status"]["state"])
            sandbox = job["sandbox"]["id"]
            # The dead worker's own command may still be about to end.
            below = os.path.join(self.root, sandbox)
            wait_until(lambda: not processes_below(below), "the end of all processes")
            self.assertEqual([], self.left_over(sandbox))

        try:
            self.each_step("cancel", job_of, look)
        finally:
            self.end_executions()


if __name__ == "__main__":
    unittest.main()
