"""The reading of machine code (``aten_sass.py``) on listings made up for it: main paths, exits after a dimension, loops, type switches."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import aten_sass
from aten_sass import Instruction, code_of, comparison, kind_of, resolved, taken, width


def listing(text: str) -> list[Instruction]:
    """Lines ``label: @P0 BRA label`` or ``OP operands``, 16 bytes each."""
    lines = [line.strip() for line in text.strip().splitlines()]
    labels, code = {}, []
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = 16 * len(code)
            continue
        predicate, rest = line.split(" ", 1) if line.startswith("@") else ("", line)
        op, _, operands = rest.partition(" ")
        code.append((16 * len(code), predicate, op, operands))
    place = {name: f"{at:#x}" for name, at in labels.items()}
    return [(a, p, op, " ".join(place.get(word, word) for word in rest.split())) for a, p, op, rest in code]


def test_the_longest_way_that_calls_nothing_is_the_main_path() -> None:
    code = code_of("f<float>", listing("""
        LDG.E R2, desc[UR4][R2.64]
        @!P0 BRA rare
        MUFU.RCP R3, R2
        FFMA R3, R2, R3, R2
        BRA end
        rare:
        FADD R3, R2, R2
        FADD R3, R2, R2
        FADD R3, R2, R2
        CALL.REL.NOINC 0x1000
        end:
        STG.E desc[UR4][R4.64], R3
        EXIT
    """))  # fmt: skip
    assert code.once == 7
    assert code.special == 1 / 7
    assert code.loops == ()


def test_a_call_that_all_ways_make_is_counted_with_what_it_does() -> None:
    code = code_of("f<float>", listing("""
        CALL.REL.NOINC function
        EXIT
        function:
        FADD R3, R2, R2
        FADD R3, R2, R2
        RET.REL.NODEC R2
    """))  # fmt: skip
    assert code.once == 5


def test_an_exit_after_each_dimension() -> None:
    step = "IMAD.HI.U32 R4, R5, UR4, R2\nIMAD R0, R2, UR4, R0\nISETP.NE.AND P0, PT, R6, 0x1, PT\n@!P0 BRA end\n"
    text = "MOV R1, R1\n@!P0 BRA end\n" + 25 * step + "end:\nSTG.E desc[UR4][R4.64], R3\nEXIT"
    code = code_of("elementwise_kernel<128, 4>", listing(text))
    assert code.once == 2 + 4 + 2  # no dimension, one, the store and the end
    assert code.dimension == 4


def test_loops_have_their_trips_bytes_and_depth() -> None:
    code = code_of("f<float>", listing("""
        MOV R1, R1
        outer:
        MOV R2, R2
        inner:
        LDG.E.128 R4, desc[UR4][R2.64]
        STG.E.64 desc[UR4][R4.64], R4
        ISETP.GE.AND P0, PT, R2, R3, PT
        @!P0 BRA inner
        IADD3 R1, R1, 0x1, RZ
        @!P1 BRA outer
        EXIT
    """))  # fmt: skip
    assert code.once == 2
    assert [(x.instructions, x.depth, x.loads, x.read, x.written) for x in code.loops] == [
        (3, 1, 0, 0, 0),
        (4, 2, 1, 16, 8),
    ]


def test_whole_vectors_go_where_no_access_is_guarded() -> None:
    code = code_of("vectorized_elementwise_kernel<4, F>", listing("""
        ISETP.GE.U32.AND P0, PT, R2, 0x400, PT
        @!P0 BRA rest
        LDG.E.128 R4, desc[UR4][R2.64]
        STG.E.128 desc[UR4][R4.64], R4
        EXIT
        rest:
        @!P1 LDG.E R4, desc[UR4][R2.64]
        @!P2 LDG.E R5, desc[UR4][R2.64]
        @!P3 LDG.E R6, desc[UR4][R2.64]
        @!P1 STG.E desc[UR4][R4.64], R4
        EXIT
    """))  # fmt: skip
    assert code.once == 5


def test_types_that_are_known_at_run_time_are_taken_as_single_precision() -> None:
    text = """
        ISETP.GT.AND P0, PT, R0, 0x9, PT
        @P0 BRA wide
        ISETP.NE.AND P0, PT, R0, 0x6, PT
        @P0 BRA other
        LDG.E R4, desc[UR4][R2.64]
        BRA end
        other:
        LDG.E.U16 R4, desc[UR4][R2.64]
        MOV R4, R4
        MOV R4, R4
        BRA end
        wide:
        MOV R4, R4
        MOV R4, R4
        MOV R4, R4
        MOV R4, R4
        MOV R4, R4
        end:
        EXIT
    """
    assert code_of("unrolled_elementwise_kernel<F, LoadWithCast<1>>", listing(text)).once == 7
    assert code_of("f<float>", listing(text)).once == 9  # of a number that is no type the longest way is taken


def test_loops_in_functions_of_an_element_are_for_rare_operands() -> None:
    text = """
        @!P0 BRA end
        angle:
        LDG.E R4, desc[UR4][R2.64]
        @!P1 BRA angle
        end:
        EXIT
    """
    assert code_of("vectorized_elementwise_kernel<4, sin>", listing(text)).loops == ()
    assert len(code_of("f<float>", listing(text)).loops) == 1


def test_comparisons_and_widths() -> None:
    code = listing("ISETP.GT.AND P0, PT, R0, 0x9, PT\n@!P0 BRA 0x40\n@P1 BRA 0x40")
    assert comparison(code, 1) == ("LE", 9)  # taken where it is not greater
    assert comparison(code, 2) is None
    assert taken(("LE", 9), 9)
    assert not taken(("NE", 6), aten_sass.FLOAT)
    assert [width(op) for op in ("LDG.E.128", "LDG.E.64", "LDG.E.U16", "LDG.E.S8", "LDG.E")] == [16, 8, 2, 1, 4]
    assert kind_of("RED.E.ADD").written == 4
    assert kind_of("IMAD.WIDE.U32").heavy
    assert not kind_of("IMAD").heavy


def test_labels_become_addresses() -> None:
    assert resolved([(0, "", "BRA", "`(.L_x_3)")], {".L_x_3": 0x40}) == [(0, "", "BRA", "0x40")]
