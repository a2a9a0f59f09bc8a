"""Cancelling real executions through the queue, in sandboxes of provider local."""

import os
import subprocess
import unittest

from support import PROJECT, IntegrationTest, attach_job, processes_below, wait_until

START_EXECUTION = os.path.join(PROJECT, "tests", "fixtures", "start-execution")


class Cancel(IntegrationTest):
    def start_execution(self, *command):
        remote_dir = os.path.join(self.root, "box", "mastra-app")
        os.makedirs(remote_dir, exist_ok=True)
        subprocess.run(
            [START_EXECUTION, remote_dir, "attempt-1", *command],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return os.path.join(remote_dir, ".mastra", "executions", "attempt-1")

    def ask(self, job_id, op, **more):
        self.enqueue(attach_job(job_id, **{"op": op, "read": None, **more}))
        return self.wait_reply(job_id)

    def test_a_running_execution_is_cancelled_by_one_command(self):
        where = self.start_execution("sleep", "1000")
        self.start_worker(local=True)
        reply = self.ask("c1", "cancel")
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual({"status": {"state": "cancelled", "signal": "TERM"}}, reply.result)
        self.assertEqual(1, reply.body["execs"])
        wait_until(lambda: not processes_below(self.root), "nothing of it is left")
        with open(os.path.join(where, "status"), encoding="utf-8") as file:
            self.assertEqual("cancelled|attempt-1|TERM\n", file.read())
        self.assertFalse(os.path.exists(os.path.join(where, "pid")))
        self.assertEqual(
            {"state": "cancelled", "signal": "TERM"}, self.ask("s1", "status").result["status"]
        )
        # Once more changes nothing.
        self.assertEqual(reply.result, self.ask("c2", "cancel").result)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_worker_that_ignores_term_is_killed_after_the_grace(self):
        where = self.start_execution("sh", "-c", "trap '' TERM; echo ready; exec sleep 1000")
        wait_until(lambda: os.path.getsize(os.path.join(where, "stdout")), "TERM is ignored")
        self.start_worker(local=True)
        reply = self.ask("c1", "cancel", termination_grace_ms=200)
        self.assertEqual("cancelled", reply.result["status"]["state"])
        wait_until(lambda: not processes_below(self.root), "nothing of it is left")
        self.stop_workers()

    def test_an_execution_that_has_ended_or_is_not_there_keeps_its_status(self):
        self.start_execution("sh", "-c", "exit 3")
        self.start_worker(local=True)
        status = self.ask("c1", "cancel").result["status"]
        self.assertEqual(("exited", 3), (status["state"], status["exit_code"]))
        status = self.ask("c2", "cancel", execution_id="attempt-2").result["status"]
        self.assertEqual(("unknown", "absent"), (status["state"], status["reason"]))
        self.stop_workers()

    def test_too_little_time_for_the_grace_is_refused_before_anything_is_sent(self):
        self.start_execution("sleep", "1000")
        self.start_worker(local=True)
        reply = self.ask("c1", "cancel", timeout_ms=10000)
        self.assertEqual("invalid_argument", reply.code)
        self.assertEqual("timeout_ms", reply.body["error"]["field"])
        self.assertEqual(0, reply.body["execs"])
        self.assertEqual({"state": "running"}, self.ask("s1", "status").result["status"])
        self.assertEqual("cancelled", self.ask("c2", "cancel").result["status"]["state"])
        self.stop_workers()


if __name__ == "__main__":
    unittest.main(verbosity=2)
