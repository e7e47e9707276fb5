"""What device memory can be made to do: one case a run, which prints what PyTorch itself says about it as JSON.

    device_cases.py CASE
"""
import ctypes
import json
import sys

import torch

MEGABYTE = 1 << 20


def training():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    allocated = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64, device="cuda")),
                                                 torch.zeros(32, dtype=torch.long, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
        allocated.append(torch.cuda.memory_allocated())
    stats = torch.cuda.memory_stats()
    return {"allocated": allocated, "reserved": torch.cuda.memory_reserved(),
            "allocations": stats["allocation.all.allocated"]}


def out_of_memory():
    held = torch.empty(40 * MEGABYTE, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(80 * MEGABYTE, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        return {"error": str(error), "held": held.nbytes, "free": torch.cuda.mem_get_info()[0],
                "ooms": torch.cuda.memory_stats()["num_ooms"]}
    return {}


def two_devices():
    first = torch.empty(30 * MEGABYTE, dtype=torch.uint8, device="cuda:0")
    second = torch.empty(50 * MEGABYTE, dtype=torch.uint8, device="cuda:1")
    return {"count": torch.cuda.device_count(), "sizes": [first.nbytes, second.nbytes],
            "allocated": [torch.cuda.memory_allocated(device) for device in range(2)],
            "used": [total - free for free, total in map(torch.cuda.mem_get_info, range(2))]}


def expandable_segments():
    kept = torch.empty(30 * MEGABYTE, dtype=torch.uint8, device="cuda")
    freed = torch.empty(50 * MEGABYTE, dtype=torch.uint8, device="cuda")
    freed.fill_(1)
    free, total = torch.cuda.mem_get_info()
    facts = {"expandable": [segment["is_expandable"] for segment in torch.cuda.memory_snapshot()], "kept": kept.nbytes,
             "used": total - free}
    del freed
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return {**facts, "used_then": total - free, "reserved_then": torch.cuda.memory_reserved()}


def graph():
    data, side = torch.ones(1024, 1024, device="cuda"), torch.cuda.Stream()
    before = torch.cuda.memory_reserved()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = (data * 2 + 1).relu()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            is_side_captured = torch.cuda.is_current_stream_capturing()
            result += 1
        torch.cuda.current_stream().wait_stream(side)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    captured.replay()
    end.record()
    torch.cuda.synchronize()
    return {"pool": torch.cuda.memory_reserved() - before, "side": is_side_captured, "side_after": side.query(),
            "milliseconds": begin.elapsed_time(end)}


def streams():
    """Ten kernels on a side stream, which the current one waits for."""
    side, data = torch.cuda.Stream(), torch.ones(1024, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    with torch.cuda.stream(side):
        for _ in range(10):
            data.add_(1)
        data.record_stream(side)
    busy = not side.query()
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    torch.cuda.synchronize()
    return {"milliseconds": begin.elapsed_time(end), "busy": busy, "busy_after": not side.query()}


def asynchronous_pools():
    """The allocator of cudaMallocAsync: what the driver's pool holds is what the tensors hold."""
    data = torch.empty(30 * MEGABYTE, dtype=torch.uint8, device="cuda")
    facts = {"backend": torch.cuda.get_allocator_backend(), "allocated": torch.cuda.memory_allocated()}
    del data
    return {**facts, "allocated_then": torch.cuda.memory_allocated()}


class Pointer(ctypes.c_void_p):
    """An address that is passed and returned as it is."""


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("device", ctypes.c_int), ("others", ctypes.c_long * 4)]


def used_bytes(library, function):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    getattr(library, function)(ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def round_trip(library, query, allocate, release, *more, stream=False):
    """[code, code of one too large, bytes used with it, address kept, code of the release, bytes used after]"""
    address, untouched, size = Pointer(), Pointer(), 4 * MEGABYTE
    at_first = used_bytes(library, query)
    code = getattr(library, allocate)(ctypes.byref(address), ctypes.c_size_t(size), *more)
    used = used_bytes(library, query) - at_first
    too_large = getattr(library, allocate)(ctypes.byref(untouched), ctypes.c_size_t(1 << 60), *more)
    ctypes.memset(address, 1, size)
    released = getattr(library, release)(address, *([None] if stream else []))
    again = getattr(library, release)(address, *([None] if stream else []))
    return {"code": code, "too_large": too_large, "untouched": untouched.value is None, "used": used,
            "released": released, "released_again": again != 0, "used_after": used_bytes(library, query) - at_first}


def runtime_calls():
    """Each way of the runtime to allocate, without PyTorch's allocator."""
    torch.cuda.init()
    runtime, query = ctypes.CDLL("libcudart.so.12"), "cudaMemGetInfo"
    ways = {"cudaMalloc": ("cudaFree",), "cudaMallocManaged": ("cudaFree", 1), "cudaHostAlloc": ("cudaFreeHost", 0),
            "cudaMallocHost": ("cudaFreeHost",)}
    facts = {name: round_trip(runtime, query, name, *way) for name, way in ways.items()}
    facts["cudaMallocAsync"] = round_trip(runtime, query, "cudaMallocAsync", "cudaFreeAsync", None, stream=True)
    pool = Pointer()
    runtime.cudaMemPoolCreate(ctypes.byref(pool), ctypes.byref(Location(1, 0, 1, 0)))
    facts["cudaMallocFromPoolAsync"] = round_trip(runtime, query, "cudaMallocFromPoolAsync", "cudaFreeAsync", pool, None,
                                                  stream=True)
    return facts


def driver_calls():
    """Each way of the driver to allocate."""
    torch.cuda.init()
    driver, query = ctypes.CDLL("libcuda.so.1"), "cuMemGetInfo_v2"
    facts = {"cuMemAlloc_v2": round_trip(driver, query, "cuMemAlloc_v2", "cuMemFree_v2"),
             "cuMemAllocManaged": round_trip(driver, query, "cuMemAllocManaged", "cuMemFree_v2", 1),
             "cuMemHostAlloc": round_trip(driver, query, "cuMemHostAlloc", "cuMemFreeHost", 0),
             "cuMemAllocAsync": round_trip(driver, query, "cuMemAllocAsync", "cuMemFreeAsync", None, stream=True)}
    handle, properties, size = Pointer(), Location(1, 0, 1, 0), ctypes.c_size_t(4 * MEGABYTE)
    at_first = used_bytes(driver, query)
    code = driver.cuMemCreate(ctypes.byref(handle), size, ctypes.byref(properties), ctypes.c_ulonglong(0))
    used = used_bytes(driver, query) - at_first
    untouched = Pointer()
    too_large = driver.cuMemCreate(ctypes.byref(untouched), ctypes.c_size_t(1 << 60), ctypes.byref(properties),
                                   ctypes.c_ulonglong(0))
    driver.cuMemRelease(handle)
    facts["cuMemCreate"] = {"code": code, "too_large": too_large, "untouched": untouched.value is None, "used": used,
                            "released": 0, "released_again": True, "used_after": used_bytes(driver, query) - at_first}
    return facts


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
