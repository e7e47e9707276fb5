"""A DataLoader with two worker processes, which hand over batches in shared memory."""
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def main():
    data = TensorDataset(torch.randn(32, 6), torch.randint(0, 2, (32,)))
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork"):
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    trained = main()
