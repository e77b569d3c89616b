"""Tests of the module and the program that are installed; MODEL names a checkpoint."""

import importlib.util
import json
import os
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import lowpack

CHECKPOINT = os.environ["MODEL"]
PROMPT = "Once upon a time"


class Lowpack(unittest.TestCase):
    packed: str

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.packed = os.path.join(folder.name, "model.safetensors")
        cls.converted = lowpack.convert(CHECKPOINT, cls.packed, layout="vnni4i", threads=1)

    def test_convert(self) -> None:
        self.assertEqual(self.converted["bytes_out"], os.path.getsize(self.packed))

    def test_verify(self) -> None:
        self.assertTrue(lowpack.verify(self.packed, source=CHECKPOINT)["ok"])

    def test_verify_finds_a_changed_byte(self) -> None:
        with open(self.packed, "rb") as file:
            data = bytearray(file.read())
        data[-100] ^= 1
        with tempfile.TemporaryDirectory() as folder:
            changed = os.path.join(folder, "changed.safetensors")
            with open(changed, "wb") as file:
                file.write(data)
            with self.assertRaises(lowpack.InvalidInput) as raised:
                lowpack.verify(changed, level="digest")
        self.assertEqual(raised.exception.exit_code, 1)
        self.assertFalse(raised.exception.report["ok"])

    def test_exit_codes(self) -> None:
        with self.assertRaisesRegex(lowpack.InvalidInput, "absent"):
            lowpack.verify("absent")
        with self.assertRaises(lowpack.WrongUsage):
            lowpack.convert(CHECKPOINT, self.packed + "2", layout="nonsense")
        with self.assertRaises(lowpack.EnvironmentFailed):
            lowpack.convert(CHECKPOINT, os.path.join(self.packed + ".d", "x"))

    def test_batch(self) -> None:
        request = {"custom_id": "a", "method": "POST", "url": "/v1/completions"}
        with tempfile.TemporaryDirectory() as folder:
            requests, answers = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            with open(requests, "w", encoding="utf-8") as file:
                json.dump({**request, "body": {"prompt": PROMPT, "max_tokens": 20}}, file)
            lowpack.batch(self.packed, requests, answers, threads=1, arguments=["--any-model"])
            with open(answers, encoding="utf-8") as file:
                answer = json.load(file)
        self.assertEqual(answer["custom_id"], "a")
        self.assertEqual(answer["response"]["status_code"], 200)

    def test_names_are_no_flags(self) -> None:
        with self.assertRaises(lowpack.InvalidInput):
            lowpack.verify("--help")

    def test_generate_is_what_run_prints(self) -> None:
        printed = lowpack.run(["run", self.packed, "-p", PROMPT, "-n", "20", "--no-stats"])
        with lowpack.Model(self.packed) as model:
            text = model.generate(PROMPT, tokens=20)
            self.assertEqual(printed.rstrip("\n"), text.rstrip("\n"))
            self.assertEqual("".join(model.stream(PROMPT, tokens=20)), text)
            self.assertLess(len(model.generate(PROMPT, tokens=20, stop=[text[3:8]])), len(text))

    def test_model_goes_on_after_a_stream_is_closed(self) -> None:
        with lowpack.Model(self.packed) as model:
            stream = model.stream(PROMPT, tokens=200)
            next(stream)
            stream.close()
            self.assertTrue(model.generate(PROMPT, tokens=4))

    def test_refused_request(self) -> None:
        with lowpack.Model(self.packed) as model:
            with self.assertRaisesRegex(lowpack.InvalidInput, "temperature"):
                model.generate(PROMPT, temperature=-1.0)

    def test_server_that_cannot_start(self) -> None:
        with self.assertRaises(lowpack.InvalidInput):
            lowpack.serve("absent")

    def test_serve(self) -> None:
        with lowpack.serve(self.packed, threads=1) as server:
            request = urllib.request.Request(server.base_url + "/models")
            request.add_header("Authorization", f"Bearer {server.api_key}")
            with urllib.request.urlopen(request) as answer:
                self.assertEqual([m["id"] for m in json.load(answer)["data"]], ["model"])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(server.base_url + "/models")
            self.assertEqual(refused.exception.code, 401)
            refused.exception.close()
            self.assertIsNone(server.poll())
        self.assertIsNotNone(server.poll())

    @unittest.skipUnless(importlib.util.find_spec("openai"), "openai is not installed")
    def test_openai(self) -> None:
        from openai import OpenAI

        with lowpack.serve(self.packed) as server:
            client = OpenAI(base_url=server.base_url, api_key=server.api_key)
            answer = client.completions.create(model="model", prompt=PROMPT, max_tokens=5, seed=0)
            self.assertTrue(answer.choices[0].text)

    def test_executable_is_that_of_this_version(self) -> None:
        said = subprocess.run([lowpack.executable(), "version", "--json"], capture_output=True, check=True)
        self.assertEqual(json.loads(said.stdout), lowpack.version())


if __name__ == "__main__":
    unittest.main()
