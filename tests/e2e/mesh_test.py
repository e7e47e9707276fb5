"""Degrees of parallelism that PyTorch's own parts show, on a mesh of ranks."""
from harness import check_equal, program_path, test

RANKS = 4
DEGREES = {"tensor": {"dp": 2, "dp_shard": 2, "tp": 2}, "pipeline": {"pp": 2}}


@test(root="latest", each=DEGREES, timeout=240)
def test_degrees_of_a_mesh_are_right_or_unknown(context, kind):
    context.trace_run(program_path("mesh"), "gloo", str(RANKS), kind)
    for rank in range(RANKS):
        metadata = context.report(rank=rank).json["metadata"]
        known = {degree: size for degree, size in (metadata["parallel"] or {}).items() if size is not None}
        check_equal((metadata["world_size"], known), (RANKS, DEGREES[kind]), f"degrees of rank {rank}")
