"""What modules hold, in the JSON report, against what the job's own hooks saw."""
import json

import invariants
from harness import COMPLETE, PYTHON, check, check_equal, program_path, test

STEPS = 3


def total(snapshot):
    return sum(snapshot.get("cuda:0", {}).values())


@test(root="cuda", device="cuda", timeout=240)
def test_modules_hold_what_their_hooks_see(context):
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("modules"), "--steps", str(STEPS)))
    check_equal(process.code, COMPLETE, f"exit code: {process}")
    said = [json.loads(line) for line in process.out.splitlines() if line.startswith("{")]
    modules = {module["fqn"]: module for module in context.report().json["modules"]}
    invariants.check_schema(context.report())
    names = {what["module"] for what in said}
    check_equal(len(names), 8, "modules that the job called")
    for name in names:
        module, calls = modules[name], [what for what in said if what["module"] == name]
        check_equal(module["calls"], STEPS, f"calls of {name}")
        for state in ("Pre-Forward", "Post-Forward"):
            check_equal([total(snapshot) for snapshot in module["snapshots"][state]],
                        [what["bytes"] for what in calls if what["state"] == state], f"{state} of {name}")
        last = {key: what[key] for what in calls for key in what}
        check_equal((module["input_bytes"], module["output_bytes"]), (last["input"], last["output"]),
                    f"inputs and outputs of {name}")
        if not any(other.startswith(name + ".") for other in names):  # inner hooks reset the peak
            check_equal([total(snapshot) for snapshot in module["snapshots"]["Peak-Forward"]],
                        [what["peak"] for what in calls if "peak" in what], f"Peak-Forward of {name}")
        backward = [len(module["snapshots"][state]) for state in ("Pre-Backward", "Peak-Backward", "Post-Backward")]
        check_equal(backward, [STEPS] * 3, f"backward passes of {name}")
        highest = max(total(snapshot) for state in module["snapshots"].values() for snapshot in state)
        check_equal(module["local_peak_bytes"], highest, f"local peak of {name}")
    for name in ("Model.blocks", "SGD"):
        check(not modules.get(name, {}).get("calls"), f"{name} is not called")
    check(modules["Model.blocks"]["input_bytes"] is None, "a list of modules has no inputs")
    check_equal(modules["Model.head"]["parameter_bytes"], 4 * (64 * 10 + 10), "bytes of the head's parameters")
    metadata = context.report().json["metadata"]
    check_equal((metadata["model"], metadata["model_dtype"]), ("Model", "float32"), "facts of the model")
