#!/usr/bin/env python3
"""Reads a packed file of lowpack with numpy alone, written from docs/FORMAT.md and two pages of docs/LAYOUTS.md.

    read_packed.py FILE          one line of JSON per quantized tensor in layout vnni4i, vnni4i-64 or vnni4p
    from read_packed import Packed; Packed(FILE).floats("model.layers.0.mlp.up_proj.weight")

It checks every digest it meets (F4, F11, F12) and refuses what it does not know. Numbers in brackets are rules of FORMAT.md.
"""

import hashlib
import json
import math
import sys

import numpy as np

BITS = {"int1": [1], "ternary": [2], "int2": [2], "int2odd": [2], "int2q": [2], "int4": [4], "e2m1": [4], "iq4nl": [4],
        "int4odd": [4], "iq2": [4], "iq3xxs": [4], "int3": [2, 1], "int5": [4, 1], "int6": [4, 2]}  # lowest part first
DIGITS = {  # the code tables of LAYOUTS.md: digit -> weight; None is not a digit
    "int1": [1, -1], "ternary": [0, 1, -1, None], "int2": [-2, -1, 0, 1], "int2odd": [-3, -1, 1, 3], "int2q": [-1, 0, 1, 2],
    "int4": list(range(-8, 8)), "e2m1": [0, 1, 2, 3, 4, 6, 8, 12, None, -1, -2, -3, -4, -6, -8, -12],
    "int3": list(range(-4, 4)), "int5": list(range(-16, 16)), "int6": list(range(-32, 32)), "int4odd": list(range(-15, 16, 2)),
    "iq2": [8, 25, 43, *[None] * 5, -8, -25, -43, *[None] * 5],
    "iq3xxs": [-31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 31],
    "iq4nl": [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
}
DTYPES = {"F32": "<f4", "F16": "<f2", "U8": "u1", "I8": "i1", "I32": "<i4", "BF16": "<u2"}


class Refused(Exception): ...


def need(ok, rule):
    if not ok:
        raise Refused(f"{rule} of docs/FORMAT.md does not hold")


class Packed:
    def __init__(self, path):
        data = np.memmap(path, np.uint8, "r")
        size = int(data[:8].view("<u8")[0])
        need((8 + size) % 64 == 0 and size <= 16777216 and size + 8 <= len(data), "F1")
        text = data[8:8 + size].tobytes()
        header = json.loads(text)
        need(text.startswith(b"{") and len(text) - len(text.rstrip(b" ")) < 64, "F2")
        meta = header.pop("__metadata__")
        need(list(meta) == ["format", "lowpack.manifest", "lowpack.manifest.sha256"] and meta["format"] == "lowpack", "F4")
        manifest = meta["lowpack.manifest"].encode()
        need(hashlib.sha256(manifest).hexdigest() == meta["lowpack.manifest.sha256"], "F4")
        ends = [0] + [t["data_offsets"][1] for t in header.values()]  # (F3: by offset)
        need([t["data_offsets"][0] for t in header.values()] == ends[:-1] and ends[-1] == len(data) - 8 - size, "F5")
        self.header, self.data, self.manifest = header, data[8 + size:], json.loads(manifest)
        need(self.manifest["format"] == 2, "F11")
        self.entries = {e["name"]: e for e in self.manifest["packed"]}

    def stored(self, name, digest=None):
        """The bytes of a tensor, and its header."""
        t = self.header[name]
        raw = self.data[t["data_offsets"][0]:t["data_offsets"][1]]
        need(digest is None or hashlib.sha256(raw).hexdigest() == digest, f"F11 ({name})")
        return raw, t

    def numbers(self, name, digest=None):
        """A tensor as an array; BF16 is widened."""
        raw, t = self.stored(name, digest)
        x = raw.view(DTYPES[t["dtype"]]).reshape(t["shape"])
        return (x.astype("<u4") << 16).view("<f4") if t["dtype"] == "BF16" else x

    def codes(self, name):
        """The codes of a quantized tensor, [M, K] or [E, M, K]."""
        e = self.entries[name]
        layout, alphabet = e["layout"]["name"], e["layout"]["alphabet"]
        rows, parts = {"vnni4i": (32, 1), "vnni4i-64": (64, 1), "vnni4p": (32, 2)}.get(layout, (0, 0))
        if parts != len(BITS.get(alphabet, [])) or not rows:
            raise Refused(f"{name}: layout {layout}, alphabet {alphabet}")
        *experts, M, K = e["shape"]
        raw, _ = self.stored(name + ".packed", e["sha256"])
        stride = -(-e["bytes"] // 64) * 64  # (F6, F14)
        need(len(raw) == stride * math.prod(experts), "F14")
        one = [unpack(raw[i:i + e["bytes"]], M, K, rows, alphabet) for i in range(0, len(raw), stride)]
        codes = np.stack(one).reshape(*experts, M, K)
        need(codes_digest(codes.reshape(-1, K), alphabet) == e["codes_sha256"], f"F12 ({name})")
        return codes

    def floats(self, name):
        """The weights as float32: (code - zero) * scale, or (code - lowest) * scale + minimum (F9, F23, F25, F24)."""
        e, codes = self.entries[name], self.codes(name).astype(np.float32)
        scale = self.widened(e, self.numbers(name + ".scale", e["scale_sha256"]))
        spread = lambda x: self.spread(e, x.astype(np.float32), codes.shape)
        if e.get("zero"):
            codes = codes - spread(self.numbers(name + ".zero", e["zero_sha256"]))
        weights = codes * spread(scale)
        if e.get("min"):
            lowest = min(d for d in DIGITS[e["layout"]["alphabet"]] if d is not None)
            minimum = spread(self.widened(e, self.numbers(name + ".min", e["min_sha256"])))
            weights = (codes - np.float32(lowest)) * spread(scale) + minimum
        if e.get("order"):  # (F24)
            order, shuffled, weights = self.numbers(name + ".order", e["order_sha256"]), weights, np.empty_like(weights)
            np.put_along_axis(weights, np.broadcast_to(order[..., None, :], weights.shape), shuffled, -1)
        return weights

    def widened(self, e, x):
        """Scales or minima as numbers (F9)."""
        if e["scale"]["dtype"] == "E8M0":
            return np.exp2(x.astype(np.float32) - 128)
        if e["scale"]["dtype"] in ("F16I8", "F16I8/8"):
            runs = x.reshape(*x.shape[:-1], -1, 2 + 256 // e["scale"]["group"])
            half, integers = np.ascontiguousarray(runs[..., :2]).view("<f2"), runs[..., 2:].view(np.int8)
            return (half.astype(np.float32) * integers / (8 if "/" in e["scale"]["dtype"] else 1)).reshape(*x.shape[:-1], -1)
        return x

    def spread(self, e, x, shape):
        """A number for each weight, of one for a tensor, a row or a group of columns (F9)."""
        if e["scale"]["kind"] == "group":
            return np.repeat(x, e["scale"]["group"], axis=-1)[..., :shape[-1]]
        return np.broadcast_to(x.reshape(*shape[:-2], -1, 1), shape)  # for each expert, one or as many as rows


def unpack(raw, M, K, rows, alphabet):
    """Codes of one matrix: byte m/bm*L*K + k/4*4*L + m%L*4 + k%4, from bit bits*(m%bm/L), with K padded to 4.
    Where digits have two parts, those of four columns follow each other, each with an L of its own."""
    panels, fours, table, shift, start = -(-M // rows), -(-K // 4), DIGITS[alphabet], 0, 0
    need(len(raw) == panels * fours * sum(BITS[alphabet]) * rows // 2, "F14")
    raw, digits = raw.reshape(panels, fours, -1), 0
    for bits in BITS[alphabet]:
        part = raw[:, :, start:(start := start + rows * bits // 2)].reshape(panels, fours, 1, -1, 4)
        part = part >> (bits * np.arange(8 // bits, dtype=np.uint8)).reshape(1, 1, -1, 1, 1) & (1 << bits) - 1
        digits |= part.transpose(0, 2, 3, 1, 4).reshape(panels * rows, fours * 4) << shift
        shift += bits
    need(all(table[d] is not None for d in np.unique(digits)), "F15")
    codes = np.array([d or 0 for d in table], np.int8)[digits]
    need(0 not in table or not (codes[M:].any() or codes[:, K:].any()), "F15")
    return codes[:M, :K]


def codes_digest(codes, alphabet):
    """The digest of codes, which does not depend on the layout (F12)."""
    (M, K), values = codes.shape, sorted(d for d in DIGITS[alphabet] if d is not None)
    numbers = np.searchsorted(values, codes).astype(np.uint8)
    bits = next(b for b in (1, 2, 4, 8) if len(values) <= 1 << b)
    packed = np.zeros((M, Q := -(-K * bits // 8)), np.uint8)
    for field in range(8 // bits):  # columns j, j + Q, j + 2Q ...
        part = numbers[:, field * Q:(field + 1) * Q]
        packed[:, :part.shape[1]] |= part << (bits * field)
    return hashlib.sha256(f"lowpack codes v2\n{alphabet} {M} {K}\n".encode() + packed.tobytes()).hexdigest()


if __name__ == "__main__":
    file = Packed(sys.argv[1])
    for name, entry in file.entries.items():
        digest = hashlib.sha256(np.ascontiguousarray(file.floats(name), "<f4")).hexdigest()
        print(json.dumps({"name": name, "shape": entry["shape"], "floats_sha256": digest}))
