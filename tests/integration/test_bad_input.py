"""What producers get wrong: a clear error reply that names the field, or a dead letter where
no reply is possible; the next job runs; nothing outside the sandbox's root is touched."""

import os
import unittest

import msgpack

from support import (
    CAPABILITY_MESSAGE,
    DEADLINE_S,
    IntegrationTest,
    attach_job,
    capability_job,
    files_below,
    info_job,
    processes_below,
    wait_until,
)

EXECUTION_ID_MESSAGE = (
    "Worker executionId must contain only letters, numbers, dots, underscores, and hyphens."
)


def local_job(job_id, op="status", **more):
    return {
        "id": job_id,
        "op": op,
        "sandbox": {"provider": "local", "id": "box"},
        "execution_id": "attempt-1",
        **more,
    }


class Poison(IntegrationTest):
    """Entries that cannot be answered, before good ones."""

    POISON = {
        "no MessagePack at all": b"\xc1garbage\x00\xff",
        "an empty body": b"",
        "a cut map": msgpack.packb(capability_job("cut"))[:-3],
        "something after the map": msgpack.packb(capability_job("long")) + b"\x00",
        "a text instead of a map": msgpack.packb("attach"),
        "an array header of 4 billion": b"\xdd\xff\xff\xff\xff",
        "nesting without end": b"\x91" * 100_000,
        "a job without id": msgpack.packb({"op": "info"}),
        "a job whose id is a number": msgpack.packb({**info_job("x"), "id": 8669953028799}),
        "a job whose id is no name": msgpack.packb(info_job("../x")),
        "an id with a NUL": msgpack.packb(info_job("a\0b")),
        "an id with a newline at its end": msgpack.packb(info_job("a\n")),
        "an id of 129 characters": msgpack.packb(info_job("a" * 129)),
        "two ids": b"\x82\xa2id\xa1a\xa2id\xa1b",
    }

    def test_poison_becomes_dead_letters_with_the_original_bytes_and_the_good_are_answered(self):
        entries = {}
        for name, body in self.POISON.items():
            entries[self.enqueue(body, source="billing", weight="7")] = (name, body)
            self.enqueue(capability_job(f"good{len(entries)}"))
        self.start_worker(slots=2)
        self.wait_replies(len(entries))
        letters = self.wait_letters(len(entries))
        for letter in letters:
            name, body = entries.pop(letter[b"entry"].decode())
            with self.subTest(name):
                self.assertEqual(body, letter[b"job"])
                self.assertEqual(b"malformed", letter[b"reason"])
                self.assertEqual(b"billing", letter[b"source"])
                self.assertEqual(b"7", letter[b"weight"])
                self.assertEqual(b"1", letter[b"deliveries"])
                self.assertEqual(b"1", letter[b"attempt"])
                self.assertTrue(letter[b"error"])
                self.assertGreater(int(letter[b"dead_ms"]), 1_600_000_000_000)
        self.assertEqual({}, entries)
        self.stop_workers()
        self.assert_answered_once([f"good{i + 1}" for i in range(len(self.POISON))])
        self.assert_queue_is_empty()

    def test_an_entry_without_field_job_becomes_a_dead_letter_with_all_it_had(self):
        self.client.xadd(self.key("jobs"), {"task": b"\x00\x01", "source": "billing"})
        self.enqueue(capability_job("good"))
        self.start_worker()
        self.wait_reply("good")
        (letter,) = self.wait_letters(1)
        self.assertEqual(b"\x00\x01", letter[b"task"])
        self.assertEqual(b"billing", letter[b"source"])
        self.assertEqual(b"malformed", letter[b"reason"])
        self.assertIn(b"job", letter[b"error"])
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_fields_that_pretend_to_be_the_letters_own_do_not_win(self):
        entry = self.enqueue(b"\xc1", reason="none", entry="0-1", owner="nobody", dead_ms="0")
        self.start_worker()
        (letter,) = self.wait_letters(1)
        self.assertEqual(b"malformed", letter[b"reason"])
        self.assertEqual(entry.encode(), letter[b"entry"])
        self.assertNotEqual(b"nobody", letter[b"owner"])
        self.assertNotEqual(b"0", letter[b"dead_ms"])

    def test_an_unsupported_version_without_id_is_a_dead_letter_that_says_so(self):
        self.enqueue({"v": 99, "op": "info"})
        self.start_worker()
        (letter,) = self.wait_letters(1)
        self.assertEqual(b"unsupported_version", letter[b"reason"])
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_reply_stream_that_is_no_stream_makes_the_job_unanswerable_and_the_rest_goes_on(self):
        self.client.set(self.key("replies:upstream"), "a string")
        self.start_worker()
        entry = self.enqueue(capability_job("j1", reply_to="upstream"), source="billing")
        self.enqueue(b"\xc1")
        self.enqueue(capability_job("good"))
        self.wait_reply("good")
        letters = {letter[b"entry"]: letter for letter in self.wait_letters(2)}
        letter = letters[entry.encode()]
        self.assertEqual(b"unanswerable", letter[b"reason"])
        self.assertEqual(b"j1", letter[b"id"])
        self.assertEqual(b"billing", letter[b"source"])
        self.stop_workers()
        self.assertEqual(b"a string", self.client.get(self.key("replies:upstream")))
        self.assert_queue_is_empty()

    def test_a_key_of_another_type_for_dead_letters_is_said_and_the_letter_written_once_it_is_gone(self):
        self.client.set(self.key("dead"), "a string")
        worker = self.start_worker(lease_ms=1000)
        self.enqueue(b"\xc1")
        self.enqueue(capability_job("good"))
        self.wait_reply("good")
        worker.wait_text("outcome=unwritten")
        self.client.delete(self.key("dead"))
        (letter,) = self.wait_letters(1)
        self.assertEqual(b"\xc1", letter[b"job"])
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_huge_body_is_out_of_the_way_in_the_end_and_the_worker_lives_on(self):
        # On a machine so busy that the entry does not arrive within a command's deadline, it
        # comes back after each lease, and is put away unseen after the sixth.
        self.start_worker(lease_ms=3000)
        # Above the 24 MiB that a job may have.
        self.enqueue(capability_job("huge", padding=b"\0" * (25 * 1024 * 1024)))
        self.enqueue(capability_job("good"))
        self.wait_reply("good")
        wait_until(
            lambda: self.letters() or [r for r in self.replies() if r.id == "huge"],
            "the huge job is out of the way",
            deadline_s=5 * DEADLINE_S,
        )
        self.stop_workers()
        self.assert_queue_is_empty()


class Asking(IntegrationTest):
    """Jobs whose producer can be told."""

    def ask(self, job, name=None):
        self.enqueue(job)
        return self.wait_reply(job["id"], name=name)

    def assert_refused(self, reply, code, field=None, text=None):
        self.assertFalse(reply.ok, reply.body)
        self.assertEqual(code, reply.code, reply.body)
        self.assertIs(False, reply.error["retryable"])
        if field:
            self.assertEqual(field, reply.error.get("field"), reply.body)
        if text:
            self.assertIn(text, reply.error["message"])

    def end(self):
        self.stop_workers()
        self.assertEqual([], self.letters())
        self.assert_queue_is_empty()


class Refused(Asking):
    def test_the_capability_error_has_its_words_and_its_parts(self):
        self.start_worker()
        reply = self.ask(capability_job("j1"))
        self.assert_refused(reply, "capability_unavailable")
        self.assertEqual(CAPABILITY_MESSAGE, reply.error["message"])
        self.assertEqual("execute_command", reply.error["capability"])
        self.assertEqual("cua-fleet", reply.error["provider"])
        self.assertIsInstance(reply.error["supported"], list)
        self.assertIn("info", reply.error["remedy"])
        self.assertEqual("j1", reply.body["id"])
        self.assertEqual("attach", reply.body["op"])
        self.assertEqual(1, reply.body["attempt"])
        self.assertEqual(0, reply.body["execs"])
        self.end()

    def test_the_capability_error_comes_before_a_bad_execution_id_and_all_other_arguments(self):
        self.start_worker()
        for i, more in enumerate(
            (
                {"execution_id": "../../etc"},
                {"execution_id": ""},
                {"execution_id": 7},
                {"remote_dir": "relative"},
                {"remote_dir": "/a/../b"},
                {"termination_grace_ms": -1},
                {"read": "everything"},
                {"timeout_ms": 0},
                {"max_attempts": 51},
                {"reply_to": "a/b"},
                {"traceparent": "00-zz"},
                {"sandbox": {"provider": "cua-fleet", "id": "vm-1", "region": "x"}},
                {"sandbox": {"provider": "cua-fleet", "id": ""}},
            )
        ):
            with self.subTest(str(more)):
                reply = self.ask(capability_job(f"j{i}", **more))
                self.assert_refused(reply, "capability_unavailable")
        self.end()

    def test_what_is_wrong_with_a_job_is_said_with_its_field(self):
        self.start_worker()
        sandbox = {"provider": "cua-fleet", "id": "vm-1"}
        for i, (change, code, field) in enumerate(
            (
                ({"v": 99}, "unsupported_version", "v"),
                ({"v": 0}, "unsupported_version", "v"),
                ({"v": "one"}, None, "v"),
                ({"op": "dance"}, "unknown_operation", "op"),
                ({"op": None}, "invalid_argument", "op"),
                ({"op": 7}, "invalid_argument", "op"),
                ({"sandbox": None}, "invalid_argument", "sandbox"),
                ({"sandbox": "vm-1"}, "invalid_argument", "sandbox"),
                ({"sandbox": {"id": "vm-1"}}, "invalid_argument", "sandbox.provider"),
                ({"sandbox": {"provider": "cua-fleet"}}, "invalid_argument", "sandbox.id"),
                ({"sandbox": {**sandbox, "id": ""}}, "invalid_argument", "sandbox.id"),
                ({"sandbox": {**sandbox, "id": "a\0b"}}, "invalid_argument", "sandbox.id"),
                ({"sandbox": {**sandbox, "id": b"\xff\xfe"}}, "invalid_argument", "sandbox.id"),
                ({"sandbox": {**sandbox, "tags": [1]}}, "invalid_argument", "sandbox.tags"),
                ({"reply_to": "a/b"}, "invalid_argument", "reply_to"),
                ({"reply_to": "{other}:jobs"}, "invalid_argument", "reply_to"),
                ({"reply_to": 7}, "invalid_argument", "reply_to"),
                ({"deadline_ms": "soon"}, "invalid_argument", "deadline_ms"),
                ({"timeout_ms": 0}, "invalid_argument", "timeout_ms"),
                ({"timeout_ms": 1.5}, "invalid_argument", "timeout_ms"),
                ({"max_attempts": 51}, "invalid_argument", "max_attempts"),
                ({"traceparent": "00-zz"}, "invalid_argument", "traceparent"),
            )
        ):
            with self.subTest(str(change)):
                reply = self.ask({**info_job(f"j{i}"), **change})
                self.assert_refused(reply, code or reply.code, field)
                # A reply_to that is refused must not choose where the refusal goes.
                self.assertFalse(reply.ok)
        keys = {key.decode() for key in self.client.keys("*")}
        for key in keys:
            self.assertTrue(key.startswith("attachd:{test}:"), key)
        self.end()

    def test_an_unknown_provider_is_named_and_the_remedy_says_what_to_do(self):
        self.start_worker()
        reply = self.ask({**info_job("j1"), "sandbox": {"provider": "nimbus", "id": "x"}})
        self.assert_refused(reply, "unknown_provider", text='"nimbus"')
        self.assertTrue(reply.error["remedy"])
        self.end()

    def test_provider_local_does_not_exist_where_no_root_is_configured(self):
        self.start_worker()
        reply = self.ask(attach_job("j1"))
        self.assert_refused(reply, "unknown_provider", text='"local"')
        self.end()

    def test_a_deadline_that_has_passed_means_the_job_is_not_run(self):
        self.make_sandbox()
        self.start_worker(local=True)
        for i, deadline in enumerate((1, 1_600_000_000_000, -5, msgpack.Timestamp(1_600_000_000))):
            with self.subTest(str(deadline)):
                reply = self.ask(attach_job(f"j{i}", deadline_ms=deadline))
                self.assert_refused(reply, "deadline_exceeded")
        self.assertTrue(self.gate.nobody_came())
        self.end()

    def test_a_passed_deadline_counts_on_a_provider_that_runs_nothing_too(self):
        self.start_worker()
        self.assert_refused(self.ask(info_job("j1", deadline_ms=1)), "deadline_exceeded")
        self.end()

    def test_replies_go_to_the_stream_that_the_job_names(self):
        self.start_worker()
        reply = self.ask(info_job("j1", reply_to="billing:eu-1"), name="billing:eu-1")
        self.assertTrue(reply.ok)
        self.assertEqual([], self.replies())
        self.end()

    def test_a_job_all_in_bin_with_floats_and_unknown_keys_is_understood(self):
        self.start_worker()
        job = {
            b"v": 1.0,
            b"id": b"j1",
            b"op": b"info",
            b"sandbox": {b"provider": b"cua-fleet", b"id": b"vm-1"},
            b"timeout_ms": 5000.0,
            b"colour": {1: "x", None: 2},
        }
        self.enqueue(job)
        self.assertTrue(self.wait_reply("j1").ok)
        self.end()

    def test_a_traceparent_comes_back_in_the_reply(self):
        self.start_worker()
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        self.assertEqual(parent, self.ask(info_job("j1", traceparent=parent)).body["traceparent"])
        self.end()


class Sandboxes(Asking):
    """The same on provider local, where a job could do harm. A canary stands beside the root,
    and nothing may appear or change outside the sandbox that the job names."""

    def setUp(self):
        super().setUp()
        self.make_sandbox()
        self.outside = os.path.join(self.directory, "outside")
        os.makedirs(os.path.join(self.outside, "mastra-app"))
        os.symlink(self.outside, os.path.join(self.root, "link"))
        os.symlink(self.outside, os.path.join(self.root, "box", "away"))
        with open(os.path.join(self.root, "plain"), "wb"):
            pass
        self.config = self.local_config()

    def look(self):
        return {
            path: facts
            for path, facts in files_below(self.directory).items()
            if "/redis.sock" not in path and not path.endswith(("/reached", "/gate"))
        }

    def ask_all(self, cases):
        self.start_worker(local=True)
        before = self.look()
        for i, (change, check) in enumerate(cases):
            with self.subTest(str(change)):
                check(self.ask({**local_job(f"j{i}"), **change}))
        self.assertEqual(before, self.look(), "something was written")
        self.assertEqual([], processes_below(self.root))
        self.end()

    def refusal(self, field, text=None, code="invalid_argument"):
        return lambda reply: self.assert_refused(reply, code, field, text)

    def test_a_bad_execution_id_is_refused_in_mastras_words(self):
        self.ask_all(
            [
                ({"execution_id": bad}, self.refusal("execution_id", EXECUTION_ID_MESSAGE))
                for bad in (
                    *("", "..", ".", "../attempt-1", "a/b", "a b", "-x", "a\n", "a\0b", "ä"),
                    *("a" * 129, "a'b", "$(touch x)", "a;b", b"\xff"),
                )
            ]
            + [
                ({"execution_id": None}, self.refusal("execution_id")),
                ({"execution_id": 7}, self.refusal("execution_id")),
            ]
        )

    def test_a_bad_remote_dir_is_refused(self):
        self.ask_all(
            [
                ({"remote_dir": bad}, self.refusal("remote_dir"))
                for bad in (
                    *("", "relative", "./x", "~/x", "../outside", "/..", "/a/../../etc"),
                    *("/a/..", "/a\0b", "a\0b", b"/\xff", 7, ["/a"], "/" + "a" * 5000),
                    *("/etc", self.outside, self.root, f"{self.root}/link"),
                    *(f"{self.root}/other", f"{self.root}/boxes", f"{self.root}/box/away"),
                )
            ]
        )

    def test_a_bad_sandbox_id_is_refused(self):
        self.ask_all(
            [
                ({"sandbox": {"provider": "local", "id": bad}}, self.refusal("sandbox.id"))
                for bad in (
                    *("..", ".", "../outside", "a/b", "/etc", "box/", "box/../box", "a\0b", ""),
                    *("a b", "-x", "box\n", "$(touch x)", "a" * 129),
                )
            ]
        )

    def test_what_is_no_directory_of_ours_is_no_sandbox(self):
        def no_sandbox(reply):
            self.assertFalse(reply.ok, reply.body)
            self.assertIn(
                reply.code, ("sandbox_not_found", "invalid_argument", "unauthorized"), reply.body
            )

        self.ask_all(
            [
                ({"sandbox": {"provider": "local", "id": name}}, no_sandbox)
                for name in ("absent", "plain", "link")
            ]
        )

    def test_other_bad_arguments_are_refused_with_their_field(self):
        grace = "terminationGraceMs must be greater than zero."
        self.ask_all(
            [
                ({"termination_grace_ms": 0}, self.refusal("termination_grace_ms", grace)),
                ({"termination_grace_ms": -1.5}, self.refusal("termination_grace_ms", grace)),
                ({"termination_grace_ms": "1"}, self.refusal("termination_grace_ms")),
                ({"wake": "yes"}, self.refusal("wake")),
                ({"op": "attach", "read": "all"}, self.refusal("read")),
                ({"op": "attach", "read": {"sdtout": 0}}, self.refusal("read")),
                ({"op": "attach", "read": {"max_bytes": 0}}, self.refusal("read.max_bytes")),
                ({"op": "attach", "read": {"stdout": -1}}, self.refusal(None)),
                ({"op": "read_output", "stream": "stdlog"}, self.refusal("stream")),
                ({"op": "read_output", "offset": -1}, self.refusal("offset")),
            ]
        )

    def test_names_that_a_shell_would_act_on_are_just_names(self):
        def unknown(reply):
            self.assertTrue(reply.ok, reply.body)
            self.assertEqual("unknown", reply.result["status"]["state"])

        self.ask_all(
            [
                ({"remote_dir": f"{self.root}/box/{odd}"}, unknown)
                for odd in (
                    *("$(touch pwned)", "`touch pwned`", "a;touch pwned", "a'b", 'a"b', "a b"),
                    *("a\nb", "*", "-n", "a\\b", "ä€", "#", "a&b|c>d", "!!", "%s%n"),
                )
            ]
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
