"""A worker that is killed at any step of a job: another answers it, once."""

import os
import unittest

from support import IntegrationTest, attach_job, wait_until


class Kill(IntegrationTest):
    lease_ms = 1000

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

    def test_an_attach_is_answered_once_wherever_its_worker_is_killed(self):
        self.make_sandbox()
        steps = self.steps_of(attach_job("whole"), "attach")
        self.assertGreater(steps, 5)
        for step in range(1, steps + 1):
            with self.subTest(step=step):
                self.client.flushall()
                reply = self.kill_at(step, attach_job(f"j{step}"), "attach")
                self.assertTrue(reply.ok, reply.body)


if __name__ == "__main__":
    unittest.main()
