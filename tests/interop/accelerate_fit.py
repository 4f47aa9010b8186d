"""A usual training with Accelerate; it does not use rollcall."""
import os

import torch
from accelerate import Accelerator


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, 64).reshape(-1, 1)
    data = torch.utils.data.TensorDataset(x, 3 * x - 1)
    model = torch.nn.Linear(1, 1)
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.2),
        torch.utils.data.DataLoader(data, batch_size=8, shuffle=True))
    steps = 0
    for _ in range(20):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            steps += 1
    layer = accelerator.unwrap_model(model)
    # One write, so that lines of two ranks do not mix.
    os.write(1, (f"fitted {accelerator.process_index} of "
                 f"{accelerator.num_processes} steps {steps} to "
                 f"{layer.weight.item():.4f} {layer.bias.item():.4f}\n").encode())
    accelerator.end_training()


if __name__ == "__main__":
    main()
