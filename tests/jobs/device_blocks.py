"""Blocks of a device's caching allocator, made and freed in every way that it has.

    device_blocks.py [--rounds N] [--pause SECONDS] [--history FILE] KIND ...

Does a step of each KIND in turn, N times (2), with a pause after each. After a
step it prints one JSON line: the time, and what the allocator says of each
device; the peak is that since the line before. With --history it writes what
the allocator recorded of itself: for each device a list of [action, size,
stream, address], streams and addresses as numbers in order of appearance.
"""
import argparse
import json
import time

import torch

MEBIBYTE = 1 << 20


def tensor(count, device="cuda", dtype=torch.uint8):
    return torch.empty(count, dtype=dtype, device=device)


def caching():
    """Small blocks that share segments, freed out of order and given out again."""
    kept = [tensor(size) for size in (1, 511, 512, 513, 4000, 100_000)]
    del kept[1], kept[2]
    kept += [tensor(size) for size in (600, 100, 2000)]
    kept.clear()
    return tensor(777)


def splitting():
    """Large blocks: parts of a segment, one with a rest that is too small to split off, one of its own."""
    first = [tensor(3 * MEBIBYTE) for _ in range(4)]
    del first[1:3]
    return first, tensor(11 * MEBIBYTE), tensor(19 * MEBIBYTE + 5), tensor(MEBIBYTE + 1)


def streams():
    """Blocks of another stream, and one that both use: it is given back when the other is done with it."""
    side = torch.cuda.Stream()
    shared = tensor(2000)
    with torch.cuda.stream(side):
        own = tensor(3000)
        shared.record_stream(side)
        other = shared + 1
    del shared, own
    again = tensor(2000)
    torch.cuda.synchronize()
    return again, other


def graphs():
    """A captured graph has a pool of its own, which lives as long as the graph."""
    source = tensor(4096, dtype=torch.float32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (source * 2).relu() + 1
    graph.replay()
    torch.cuda.synchronize()
    del result
    return tensor(100), graph


def emptying():
    """What is cached goes back to the device; what is used stays."""
    kept = tensor(5 * MEBIBYTE)
    del kept
    torch.cuda.empty_cache()
    return tensor(2 * MEBIBYTE)


def devices():
    """Two devices in turns."""
    first, second = tensor(5000, "cuda:0"), tensor(7000, "cuda:1")
    third = first.to("cuda:1")
    del first
    return second, third, tensor(64, "cuda:0")


def resizing():
    """Storages that lose their memory and get another one."""
    kept = tensor(30_000)
    kept.untyped_storage().resize_(0)
    kept.untyped_storage().resize_(60_000)
    return kept


def pinning():
    """Pinned host memory; what stays on the device is a copy of it."""
    pinned = torch.ones(5000).pin_memory()
    return pinned.to("cuda", non_blocking=True) + torch.ones(3000)[:1].to("cuda")


KINDS = {function.__name__: function
         for function in (caching, splitting, streams, graphs, emptying, devices, resizing, pinning)}


def numbered(numbers, value):
    return numbers.setdefault(value, len(numbers))


def history():
    """What the allocator recorded, of blocks only."""
    found = []
    for trace in torch.cuda.memory._snapshot()["device_traces"]:
        addresses, side_streams = {}, {0: 0}
        found.append([[entry["action"], entry["size"], numbered(side_streams, entry["stream"]),
                       numbered(addresses, entry["addr"])]
                      for entry in trace if entry["action"] in ("alloc", "free_requested")])
    return found


def state():
    found = []
    for device in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(device)
        found.append({name: stats[f"{key}.all.{moment}"]
                      for name, key, moment in (("allocated", "allocated_bytes", "current"),
                                                ("peak", "allocated_bytes", "peak"),
                                                ("reserved", "reserved_bytes", "current"),
                                                ("segments", "segment", "current"))})
        torch.cuda.reset_peak_memory_stats(device)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--history")
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    options = parser.parse_args()
    torch.cuda.init()
    if options.history:
        torch.cuda.memory._record_memory_history(stacks="python")
    kept = {}
    for kind in options.kinds * options.rounds:
        kept[kind] = KINDS[kind]()
        print(json.dumps({"step of": kind, "time_ns": time.monotonic_ns(), "devices": state()}), flush=True)
        time.sleep(options.pause)
    if options.history:
        with open(options.history, "w", encoding="utf-8") as out:
            json.dump(history(), out)


main()
