"""Many jobs, several workers, several queues: each job is answered once, each worker takes no
more than it has slots for."""

import unittest

from support import (
    GROUP,
    IntegrationTest,
    attach_job,
    capability_job,
    info_job,
    wait_until,
)


class Load(IntegrationTest):
    def test_a_thousand_jobs_over_four_workers_get_a_thousand_replies_ST_04(self):
        for _ in range(4):
            self.start_worker(slots=16)
        jobs = [f"j{i:04}" for i in range(1000)]
        with self.client.pipeline(transaction=False) as pipe:
            for i, job in enumerate(jobs):
                make = capability_job if i % 2 else info_job
                pipe.xadd(self.key("jobs"), {"job": self.packed(make(job))})
            pipe.execute()
        replies = self.wait_replies(1000)
        for reply in replies:
            is_info = int(reply.id[1:]) % 2 == 0
            self.assertEqual(is_info, reply.ok, reply)
            self.assertEqual(1, reply.body["deliveries"])
        self.assert_queue_is_empty()
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assertEqual([], self.letters())
        self.assertEqual([], self.consumers())
        self.assert_queue_is_empty()

    def test_jobs_queued_before_the_first_worker_started_are_not_skipped(self):
        jobs = [f"j{i}" for i in range(20)]
        for job in jobs:
            self.enqueue(capability_job(job))
        self.start_worker(slots=3)
        self.wait_replies(20)
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()

    def test_a_worker_takes_no_more_entries_than_it_has_free_slots(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True, slots=2)
        jobs = [f"j{i}" for i in range(10)]
        for job in jobs:
            self.enqueue(attach_job(job))
        self.gate.wait_reached(2)
        self.assertEqual(2, len(self.pending(worker.consumer)))
        # What it leaves is there for others: a second worker takes the next two, at once.
        self.start_worker(local=True, slots=2)
        self.gate.wait_reached(2)
        self.assertEqual(4, len(self.pending()))
        (group,) = self.client.xinfo_groups(self.key("jobs"))
        undelivered = self.client.xrange(
            self.key("jobs"), min=b"(" + group["last-delivered-id"], max="+"
        )
        self.assertEqual(6, len(undelivered))
        self.gate.open()
        self.wait_replies(10)
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()

    def test_two_queues_beside_each_other_do_not_mix(self):
        first = self.start_worker(queue="first")
        second = self.start_worker(queue="second")
        for i in range(20):
            self.enqueue(capability_job(f"j{i}", reply_to="upstream"), queue="first")
            self.enqueue(info_job(f"j{i}", reply_to="upstream"), queue="second")
        jobs = [f"j{i}" for i in range(20)]
        for queue, worker, is_ok in (("first", first, False), ("second", second, True)):
            for reply in self.wait_replies(20, name="upstream", queue=queue):
                self.assertEqual(is_ok, reply.ok)
                self.assertEqual(worker.consumer, reply.body["worker"])
        self.stop_workers()
        for queue in ("first", "second"):
            self.assert_answered_once(jobs, name="upstream", queue=queue)
            self.assert_queue_is_empty(queue)
        keys = {key.decode() for key in self.client.keys("*")}
        self.assertTrue(all("{first}" in key or "{second}" in key for key in keys), keys)

    def test_a_reply_stream_is_kept_to_about_its_bound(self):
        # Redis trims whole nodes of 100 entries: "about" is one node more.
        self.start_worker(reply_maxlen=200)
        for i in range(1000):
            self.enqueue(capability_job(f"j{i}"))
        stream = self.key("replies")
        wait_until(
            lambda: self.client.xinfo_stream(stream)["entries-added"] == 1000
            if self.client.exists(stream)
            else False,
            "a thousand replies were written",
        )
        self.assertGreaterEqual(self.client.xlen(stream), 200)
        self.assertLess(self.client.xlen(stream), 400)
        self.assert_queue_is_empty()

    def test_a_job_id_used_twice_is_answered_twice(self):
        self.start_worker()
        self.enqueue(info_job("again"))
        self.enqueue(info_job("again"))
        self.wait_replies(2)
        self.stop_workers()
        self.assert_answered_once(["again", "again"])
        self.assert_queue_is_empty()

    def test_the_group_is_named_workers_and_a_worker_is_seen_in_it_before_its_first_job(self):
        worker = self.start_worker()
        self.assertEqual([worker.consumer], self.consumers())
        (group,) = self.client.xinfo_groups(self.key("jobs"))
        self.assertEqual(GROUP.encode(), group["name"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
