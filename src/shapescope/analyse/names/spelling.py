"""One spelling for one kernel: mangled, c++filt, nsys and packaged forms of a name become the same text.

Rules of section 1 of the project's kernel name notes: nothing that is removed here ever makes a new family.
"""

from __future__ import annotations

import re

import demangle

# Invariant: every pattern is linear: no quantifier inside another, none unbounded from every character on.
MAX_LENGTH = 65_536

ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(anonymous\)::|_GLOBAL__N_\w+::|\{anonymous\}::")
INTEGER_CAST = re.compile(r"\((?:unsigned )?(?:int|long|char|short|long long)\)(?=-?\d)")
BOOLEAN_CAST = re.compile(r"\(bool\)([01])")
INTEGER_SUFFIX = re.compile(r"\b(\d+)(?:ull|ul|ll|u|l)\b")
VERSION_NAMESPACE = re.compile(
    r"\b(?:CUB_[0-9A-Z_]+|THRUST_[0-9A-Z_]+|ROCPRIM_\w+?_NS|HIPCUB_\w+?_NS|at_cuda_detail|__gnu_cxx)::"
)
PACKAGED = (
    (re.compile(r"\bcublasLt::"), ""),
    (
        re.compile(r"\b(cutlass|cudnn|xmma|internal)_?_(?:cudnn_infer|cudnn_train|5x_cudnn|cudnn|5x_cublas|cublas)::"),
        r"\1::",
    ),
    (re.compile(r"\bcask_+(?:5x_)?(cudnn|cublas)(?:_infer|_train)?::"), r"cask_\1::"),
    (re.compile(r"\bcudnn_(?:infer|train)_"), "cudnn_"),
    (re.compile(r"^(\w+::\w+)\.\w+$"), r"\1"),
    (re.compile(r"_(?:cudnn_infer|cudnn_train|_5x_cudnn|_5x_cublas|cublas)$"), ""),
    (re.compile(r"\bcutlass::Kernel2?<"), "cutlass::Kernel<"),
    (re.compile(r"\bat::detail::Array<"), "std::array<"),
)
ELLIPSIS = ".\u2026"
CLONE = re.compile(r" ?\[clone [^\]]{0,64}\]")
SUFFIX = re.compile(r"\.(?:kd|cold|(?:intern|isra|part|constprop)\.\d+)$")
MANGLED_PART = re.compile(r"L[a-z]n?\d{1,20}E|[ST][0-9A-Z]{0,3}_|(?P<length>[1-9]\d{0,3})")


def spell(raw: str) -> str:
    """`raw` in the project's one spelling. Of a name over `MAX_LENGTH` characters the beginning is judged."""
    text = SUFFIX.sub("", raw[:MAX_LENGTH].strip().rstrip(ELLIPSIS))
    if text.startswith(("_Z", "__Z")):
        text = demangled(text)
    if "::" in text or "<" in text or "(" in text:
        text = CLONE.sub("", text)
        text = BOOLEAN_CAST.sub(lambda match: "true" if match[1] == "1" else "false", text)
        text = INTEGER_CAST.sub("", ANONYMOUS.sub("", text))
        text = VERSION_NAMESPACE.sub("", INTEGER_SUFFIX.sub(r"\1", text))
    for pattern, replacement in PACKAGED:
        text = pattern.sub(replacement, text)
    return text


def demangled(mangled: str) -> str:
    """The c++filt spelling; of a name that was cut off, the identifiers that can still be read."""
    text = demangle.demangle(mangled, language="itanium", style="gnu")
    return text if text != mangled else _readable(mangled) or mangled


def _readable(mangled: str) -> str:
    """What can be read of a mangled name that was cut off: `_ZN2ck4gemmINS_4Grid` is `ck::gemm<Grid`."""
    paths: list[list[str]] = []
    at = mangled.index("Z") + 1
    end = -1
    while match := MANGLED_PART.search(mangled, at):
        at = match.end()
        if not match["length"]:
            continue
        length = int(match["length"])
        name = mangled[match.end() : match.end() + length]
        if not paths or (match.start() != end and end >= 0):
            paths.append([])
        if not name.startswith("_GLOBAL__N"):
            paths[-1].append(name)
        at = end = match.end() + length
    words = ["::".join(path) for path in paths if path]
    return f"{words[0]}<{', '.join(words[1:])}" if len(words) > 1 else "".join(words)
