"""attachd as a program: its settings, its log, its signals."""

import json
import os
import re
import signal
import subprocess
import unittest

from support import (
    ATTACHD,
    CLEAN_ENVIRONMENT,
    DEADLINE_S,
    IntegrationTest,
    attach_job,
    capability_job,
    parse_logfmt,
)


class Settings(IntegrationTest):
    def run_attachd(self, *arguments, **environment):
        return subprocess.run(
            [ATTACHD, *arguments],
            env={**CLEAN_ENVIRONMENT, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def check(self, text, **environment):
        path = self.write_config(text)
        done = self.run_attachd("--config", path, "--check-config", **environment)
        self.assertNotIn("Sanitizer", done.stderr)
        return done

    def test_a_good_file_is_called_good_and_shown_without_the_password(self):
        done = self.check(
            "; what a fleet would have\n"
            "[redis]\nurl = redis://user:hush@127.0.0.1:6390/2\n\n"
            "[queue]\nname = jobs-eu\nlease_ms = 10000\n\n"
            "[worker]\nslots = 8\n\n"
            f"[provider local]\nroot = {self.root}\n\n"
            f"[provider second]\ntype = local\nroot = {self.root}\n"
        )
        self.assertEqual(0, done.returncode, done.stderr)
        for text in ("127.0.0.1:6390 db 2", "jobs-eu", "10000", "second (type local)", "fine"):
            self.assertIn(text, done.stdout)
        self.assertNotIn("hush", done.stdout + done.stderr)

    def test_a_bad_file_is_refused_with_2_and_its_line(self):
        for name, text, line, message in (
            ("no such setting", "[queue]\nname = q\nlaese_ms = 1\n", 3, "laese_ms"),
            ("no such section", "[quue]\nname = q\n", 2, "quue"),
            ("no setting at all", "[queue]\n\nname\n", 3, "name = value"),
            ("a line too long", "[queue]\nname = " + "q" * 300 + "\n", 2, "longer"),
            ("a bad provider's name", "[provider a/b]\nroot = /x\n", 2, "a/b"),
        ):
            with self.subTest(name):
                done = self.check(text)
                self.assertEqual(2, done.returncode)
                self.assertIn(f"attachd.ini:{line}:", done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_a_bad_value_is_refused_with_2_and_its_setting(self):
        for name, text, messages in (
            ("no number", "[queue]\nlease_ms = soon\n", ("lease_ms", "ATTACHD_LEASE_MS")),
            ("too small", "[worker]\nslots = 0\n", ("slots", "from 1 to")),
            ("no such URL", "[redis]\nurl = http://127.0.0.1\n", ("url", "redis://")),
            ("a bad queue name", "[queue]\nname = {a}\n", ("name", "letters")),
            ("a bad level", "[log]\nlevel = loud\n", ("level", "debug")),
            ("a bad format", "[log]\nformat = xml\n", ("format", "json")),
            ("no such provider", "[provider x]\ntype = cloud9\n", ("provider x", "cloud9")),
        ):
            with self.subTest(name):
                done = self.check(text)
                self.assertEqual(2, done.returncode)
                for message in messages:
                    self.assertIn(message, done.stderr)

    def test_a_password_in_a_bad_url_is_not_repeated(self):
        for url in (
            "redis://:hush@",
            "http://:hush@127.0.0.1",
            "redis://:hush@127.0.0.1:notaport/",
            "redis://:hush@127.0.0.1/notadb",
            "unix://:hush@",
            "hush",
        ):
            with self.subTest(url):
                done = self.run_attachd("--check-config", ATTACHD_REDIS_URL=url)
                self.assertEqual(2, done.returncode)
                self.assertNotIn("hush", done.stdout + done.stderr)

    def test_the_environment_wins_over_the_file(self):
        done = self.check("[queue]\nname = from-file\n", ATTACHD_QUEUE="from-environment")
        self.assertEqual(0, done.returncode)
        self.assertIn("from-environment", done.stdout)

    def test_a_missing_file_is_refused_with_2(self):
        done = self.run_attachd("--config", os.path.join(self.directory, "none"))
        self.assertEqual(2, done.returncode)
        self.assertIn("none", done.stderr)

    def test_wrong_arguments_are_refused_with_2(self):
        for arguments in (("--colour",), ("job",), ("--log-format", "xml"), ("--log-level", "x")):
            with self.subTest(arguments):
                self.assertEqual(2, self.run_attachd(*arguments).returncode)

    def test_help_names_every_setting_and_version_is_a_number(self):
        shown = self.run_attachd("--help").stdout
        for name in ("ATTACHD_REDIS_URL", "ATTACHD_QUEUE", "ATTACHD_SLOTS", "ATTACHD_LEASE_MS"):
            self.assertIn(name, shown)
        self.assertIn("ATTACHD_LOCAL_ROOT", shown)
        self.assertRegex(self.run_attachd("--version").stdout, r"^attachd \d+\.\d+\.\d+\n$")

    def test_a_root_in_the_environment_makes_provider_local(self):
        done = self.run_attachd("--check-config", ATTACHD_LOCAL_ROOT=self.root)
        self.assertIn("local", done.stdout)
        done = self.run_attachd("--check-config")
        self.assertNotIn("local", done.stdout)


class Log(IntegrationTest):
    def test_one_line_a_job_with_the_keys_that_a_search_needs(self):
        worker = self.start_worker()
        entry = self.enqueue(capability_job("j1"))
        fields = worker.wait_line(msg="job")
        self.assertEqual("j1", fields["job"])
        self.assertEqual("attach", fields["op"])
        self.assertEqual("cua-fleet", fields["provider"])
        self.assertEqual("capability_unavailable", fields["outcome"])
        self.assertEqual(entry, fields["entry"])
        self.assertEqual("1", fields["deliveries"])
        self.assertIn("executeCommand", fields["error"])
        self.stop_workers()
        self.assertEqual(1, sum("j1" in line for line in worker.log.lines))

    def test_every_json_line_is_one_json_object(self):
        worker = self.launch_worker(arguments=["--log-format", "json", "--log-level", "debug"])
        worker.wait_text('"msg":"ready"')
        for i, provider in enumerate(('quo"te', "back\\slash", "tab\there", "\x1b[31mred", "ä€\u2028")):
            sandbox = {"provider": provider, "id": "x"}
            self.enqueue({"id": f"j{i}", "op": "info", "sandbox": sandbox})
        self.enqueue(b"\xc1")
        self.wait_replies(5)
        self.wait_letters(1)
        worker.signal(signal.SIGUSR1)
        worker.wait_text('"msg":"tasks"')
        self.stop_workers()
        objects = [json.loads(line) for line in worker.log.lines]
        for entry in objects:
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(entry["level"], ("debug", "info", "warn", "error"))
        providers = {entry.get("provider") for entry in objects if entry["msg"] == "job"}
        self.assertLessEqual({'quo"te', "back\\slash", "tab\there", "\x1b[31mred"}, providers)
        self.assertNotIn("\x1b", "".join(worker.log.lines))

    def test_a_job_cannot_write_a_log_line_of_its_own(self):
        worker = self.start_worker()
        self.enqueue(
            {
                "id": "j1",
                "op": "info",
                "sandbox": {"provider": "x\nlevel=error msg=forged", "id": "x"},
            }
        )
        worker.wait_line(msg="job")
        self.stop_workers()
        for line in worker.log.lines:
            self.assertTrue(line.startswith("time="), line)
            self.assertNotEqual("forged", parse_logfmt(line).get("msg"))


class Usr1(IntegrationTest):
    def test_SIGUSR1_lists_every_task_with_job_step_and_age(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True)
        for i in range(3):
            self.enqueue(attach_job(f"j{i}"))
        self.gate.wait_reached(3)
        worker.signal(signal.SIGUSR1)
        self.assertEqual("3", worker.wait_line(msg="tasks")["held"])
        for i in range(3):
            line = worker.wait_text(f"name=job job=j{i}")
            fields = parse_logfmt(line)
            self.assertEqual("attach", fields["op"])
            self.assertEqual("local", fields["provider"])
            self.assertTrue(fields["step"])
            self.assertTrue(re.fullmatch(r"\d+", fields["age_ms"]))
        for name in ("fetcher", "lease renewer"):
            worker.wait_line(msg="task", name=name)
        self.gate.open()
        self.wait_replies(3)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_an_idle_worker_lists_its_own_tasks(self):
        worker = self.start_worker()
        worker.signal(signal.SIGUSR1)
        worker.wait_line(msg="tasks", held=0)
        worker.wait_line(msg="task", name="fetcher")


if __name__ == "__main__":
    unittest.main(verbosity=2)
