"""einsum, linear algebra, Fourier transforms, sorting, reductions, complex and integer types."""
import torch

torch.manual_seed(0)
a, b = torch.randn(6, 8, 8), torch.randn(6, 8, 8)
for _ in range(2):
    product = torch.einsum("bij,bjk->bik", a, b)
    traced = torch.einsum("bii->b", product)
    spd = a @ a.transpose(1, 2) + 8 * torch.eye(8)
    factor = torch.linalg.cholesky(spd)
    solved = torch.linalg.solve(spd, b)
    u, s, v = torch.linalg.svd(a[0])
    values, vectors = torch.linalg.eigh(spd[0])
    q, r = torch.linalg.qr(a[1])
    spectrum = torch.fft.rfft(a, dim=-1)
    restored = torch.fft.irfft(spectrum * spectrum.conj(), n=8, dim=-1)
    ordered, places = a.flatten().sort(descending=True)
    top = torch.topk(a.flatten(), 5)
    unique = torch.randint(0, 9, (30,)).unique(return_counts=True)
    running = a.cumsum(1).logsumexp(-1)
    distances = torch.cdist(a[0], b[0])
    histogram = torch.histc(a, bins=10)
    crossed = torch.kron(a[0, :2, :2], b[0, :2, :2])
    quantile = torch.quantile(a, 0.5)
    whole = (a * 100).to(torch.int32) // 7 % 5
    parts = torch.tensor_split(a, 3)
    padded = torch.nn.functional.pad(a, (1, 1, 2, 2), mode="reflect")
a.requires_grad_()
(torch.linalg.det(a) + torch.logdet(a @ a.transpose(1, 2) + torch.eye(8)) + a.norm()).sum().backward()
