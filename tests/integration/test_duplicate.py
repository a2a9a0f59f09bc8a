"""Jobs that come more than once at the same time: one execution, and every entry answered."""

import os
import unittest

from support import DeployTest, deploy_job, wait_until

ENTRIES = 8


class Duplicate(DeployTest):
    def enqueue_at_once(self, jobs):
        """Before any worker is there, so that all of them are taken in one go."""
        for job in jobs:
            self.enqueue(job)
        for _ in range(2):
            self.launch_worker(local=True, slots=ENTRIES // 2)
        return self.wait_replies(len(jobs))

    def assert_one_start(self):
        wait_until(lambda: os.path.exists(os.path.join(self.app, "starts")), "the start")
        self.assertEqual(1, len(self.read("starts").splitlines()))
        self.assert_nothing_left()
        self.stop_workers()
        self.assert_queue_is_empty()
        self.assertEqual([], self.letters())

    def test_a_job_that_is_sent_many_times_at_once_starts_one_execution(self):
        replies = self.enqueue_at_once([deploy_job("d1")] * ENTRIES)
        self.assertEqual([True] * ENTRIES, [reply.ok for reply in replies])
        self.assertEqual(ENTRIES, len({reply.body["entry"] for reply in replies}))
        for reply in replies:
            self.assertEqual("running", reply.result["status"]["state"])
        self.assert_one_start()

    def test_of_many_jobs_for_one_execution_one_deploys_it_and_the_others_are_told(self):
        replies = self.enqueue_at_once([deploy_job(f"d{n}") for n in range(ENTRIES)])
        refused = [reply for reply in replies if not reply.ok]
        self.assertEqual(ENTRIES - 1, len(refused), [reply.body for reply in replies])
        for reply in refused:
            self.assertEqual("invalid_argument", reply.code, reply.body)
            self.assertEqual("execution_id", reply.error["field"])
        self.assert_one_start()

    def test_of_a_deploy_and_a_relaunch_of_one_execution_one_starts(self):
        self.start_worker(local=True)
        self.deployed("d0", execution="e0")
        self.stop_workers()
        os.unlink(os.path.join(self.app, "starts"))
        self.client.flushall()
        again = {
            "id": "r1",
            "op": "relaunch",
            "sandbox": {"provider": "local", "id": "box"},
            "execution_id": "e1",
            "from_execution_id": "e0",
        }
        replies = self.enqueue_at_once([deploy_job("d1"), again])
        self.assertEqual([False, True], sorted(reply.ok for reply in replies))
        self.assert_one_start()


if __name__ == "__main__":
    unittest.main()
