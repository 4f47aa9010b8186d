"""A usual training with Lightning; it does not use rollcall.

Argument: a folder for its files.
"""
import os
import sys

import lightning
import torch


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.2)


def main():
    x = torch.linspace(-1, 1, 64).reshape(-1, 1)
    data = torch.utils.data.TensorDataset(x, 3 * x - 1)
    trainer = lightning.Trainer(
        accelerator="cpu", strategy="ddp", max_epochs=20, logger=False,
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["WORLD_SIZE"])
        // int(os.environ["LOCAL_WORLD_SIZE"]),
        enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=sys.argv[1])
    model = Line()
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8))
    # One write, so that lines of two ranks do not mix.
    os.write(1, (f"fitted {trainer.global_rank} of {trainer.world_size} steps "
                 f"{trainer.global_step} to {model.layer.weight.item():.4f} "
                 f"{model.layer.bias.item():.4f}\n").encode())


if __name__ == "__main__":
    main()
