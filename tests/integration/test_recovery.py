"""Workers that die, stand still or lose a job: every job is answered, once."""

import signal
import unittest

from support import GROUP, IntegrationTest, attach_job, capability_job, info_job, wait_until


class Recovery(IntegrationTest):
    lease_ms = 2000

    def read_as_ghost(self, count):
        """Takes entries as a worker that will never be heard of again. The group must exist."""
        answer = self.client.xreadgroup(GROUP, "ghost", {self.key("jobs"): ">"}, count=count)
        return [entry for entry, _ in answer[0][1]]

    def make_group(self):
        self.client.xgroup_create(self.key("jobs"), GROUP, "0", mkstream=True)

    def test_a_job_whose_worker_is_killed_in_the_middle_is_answered_once_by_another(self):
        self.make_sandbox()
        self.gate.close()
        first = self.start_worker(local=True)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        second = self.start_worker(local=True)
        first.kill()
        self.gate.wait_reached()
        self.gate.open()
        reply = self.wait_reply("j1")
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual(2, reply.body["deliveries"])
        self.assertEqual(second.consumer, reply.body["worker"])
        self.assertEqual(b"hello\n", reply.result["output"]["stdout"]["data"])
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()
        self.assertEqual([], self.letters())

    def test_a_worker_that_stood_still_for_two_leases_does_not_answer_what_another_took(self):
        self.make_sandbox()
        self.gate.close()
        first = self.start_worker(local=True)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        first.signal(signal.SIGSTOP)
        second = self.start_worker(local=True)
        self.gate.wait_reached()  # the second has it now
        wait_until(
            lambda: self.pending()[0]["times_delivered"] == 2
            and first.process.poll() is None,
            "the second delivery",
        )
        # Two leases are over when the second worker has renewed its own for that long.
        until = self.client.time()[0] + 2 * self.lease_ms // 1000
        wait_until(lambda: self.client.time()[0] > until, "two leases")
        self.gate.open()
        first.signal(signal.SIGCONT)
        reply = self.wait_reply("j1")
        self.assertEqual(second.consumer, reply.body["worker"])
        self.assertEqual(2, reply.body["deliveries"])
        first.log.wait(
            lambda line: "outcome=fenced" in line or "lease lost" in line,
            "the stale finish is refused",
        )
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_a_job_longer_than_several_leases_runs_once_while_its_worker_lives_ST_28_ST_31(self):
        self.make_sandbox()
        self.gate.close()
        for _ in range(2):
            self.start_worker(local=True)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        until = self.client.time()[0] + 4 * self.lease_ms // 1000
        wait_until(lambda: self.client.time()[0] > until, "four leases")
        self.assertTrue(self.gate.nobody_came(), "the job was begun a second time")
        self.assertEqual(1, self.pending()[0]["times_delivered"])
        self.gate.open()
        self.assertEqual(1, self.wait_reply("j1").body["deliveries"])
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_a_job_over_which_too_many_workers_die_is_answered_as_a_crash_loop(self):
        self.make_sandbox()
        self.gate.close()
        self.enqueue(attach_job("j1", reply_to="upstream"), source="billing")
        for _ in range(2):
            worker = self.start_worker(local=True, max_deliveries=2)
            self.gate.wait_reached()
            worker.kill()
        self.start_worker(local=True, max_deliveries=2)
        reply = self.wait_reply("j1", name="upstream")
        self.assertFalse(reply.ok)
        self.assertEqual("crash_loop", reply.code)
        self.assertEqual(3, reply.body["deliveries"])
        letter = self.wait_letters(1)[0]
        self.assertEqual(b"crash_loop", letter[b"reason"])
        self.assertEqual(b"j1", letter[b"id"])
        self.assertEqual(b"billing", letter[b"source"])
        self.assertTrue(letter[b"job"])
        self.assertTrue(self.gate.nobody_came(), "it was run a third time")
        self.stop_workers()
        self.assert_answered_once(["j1"], name="upstream")
        self.assertEqual(1, len(self.letters()))
        self.assert_queue_is_empty()

    def test_an_entry_that_kills_even_who_answers_crash_loop_is_put_away_unseen(self):
        self.make_group()
        entry = self.enqueue(capability_job("j1"), source="billing")
        self.read_as_ghost(1)
        self.client.xclaim(
            *(self.key("jobs"), GROUP, "ghost", 0, [entry]),
            **{"idle": 10 * self.lease_ms, "retrycount": 50, "justid": True},
        )
        worker = self.start_worker()
        letter = self.wait_letters(1)[0]
        self.assertEqual(b"crash_loop", letter[b"reason"])
        self.assertEqual(b"50", letter[b"deliveries"])
        self.assertEqual(b"ghost", letter[b"owner"])
        self.assertEqual(entry.encode(), letter[b"entry"])
        self.assertEqual(b"billing", letter[b"source"])
        worker.wait_text("nobody can answer")
        self.stop_workers()
        self.assertEqual([], self.replies())
        self.assert_queue_is_empty()

    def test_a_pending_entry_that_was_deleted_becomes_one_dead_letter_ST_03_ST_06(self):
        self.make_group()
        gone = self.enqueue(capability_job("gone"))
        self.enqueue(capability_job("kept"))
        self.read_as_ghost(2)
        self.client.xdel(self.key("jobs"), gone)
        self.start_worker()
        self.wait_reply("kept")
        letter = self.wait_letters(1)[0]
        self.assertEqual(b"entry_missing", letter[b"reason"])
        self.assertEqual(gone.encode(), letter[b"entry"])
        self.assertEqual(b"ghost", letter[b"owner"])
        self.stop_workers()
        self.assertEqual(1, len(self.letters()))
        self.assert_answered_once(["kept"])
        self.assert_queue_is_empty()

    def test_all_that_a_dead_worker_held_is_recovered_by_workers_with_few_slots_ST_23(self):
        self.make_group()
        jobs = [f"j{i}" for i in range(40)]
        for job in jobs:
            self.enqueue(capability_job(job))
        self.assertEqual(40, len(self.read_as_ghost(40)))
        self.start_worker(slots=2)
        self.start_worker(slots=2)
        replies = self.wait_replies(40)
        self.assertEqual({2}, {reply.body["deliveries"] for reply in replies})
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()

    def test_a_lost_job_does_not_wait_for_the_backlog_to_end(self):
        self.make_sandbox()
        self.make_group()
        self.enqueue(capability_job("lost"))
        self.read_as_ghost(1)
        jobs = [f"j{i}" for i in range(400)]
        for job in jobs:
            self.enqueue({**attach_job(job), "op": "status"})
        self.start_worker(local=True, slots=1, lease_ms=300)
        order = [reply.id for reply in self.wait_replies(len(jobs) + 1)]
        self.assertLess(order.index("lost"), len(jobs) - 20)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_two_live_workers_do_not_recover_one_entry_twice(self):
        self.make_group()
        jobs = [f"j{i}" for i in range(30)]
        for job in jobs:
            self.enqueue(info_job(job))
        self.read_as_ghost(30)
        for _ in range(4):
            self.start_worker()
        for reply in self.wait_replies(30):
            self.assertEqual(2, reply.body["deliveries"])
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()


class Fence(IntegrationTest):
    """With a lease so long that no renewal notices before the job's own finish does."""

    lease_ms = 600_000

    def test_a_finish_of_an_entry_that_somebody_else_has_claimed_is_refused(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True)
        entry = self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        self.client.xclaim(self.key("jobs"), GROUP, "thief", 0, [entry])
        self.gate.open()
        worker.wait_line(outcome="fenced", entry=entry)
        self.stop_workers()
        self.assertEqual([], self.replies())
        (row,) = self.pending()
        self.assertEqual(b"thief", row["consumer"])
        self.assertEqual(1, self.client.xlen(self.key("jobs")))

    def test_a_finish_under_a_delivery_count_that_is_no_longer_ours_is_refused(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True)
        entry = self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        # The same consumer, delivered once more: as if it had recovered its own entry.
        self.client.xclaim(self.key("jobs"), GROUP, worker.consumer, 0, [entry])
        self.gate.open()
        worker.wait_line(outcome="fenced", entry=entry)
        self.assertEqual([], self.replies())
        self.client.xack(self.key("jobs"), GROUP, entry)


if __name__ == "__main__":
    unittest.main(verbosity=2)
