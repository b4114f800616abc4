"""A small detector; after every training batch its boxes are thinned out, the best one first, in Python."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def iou(box, boxes):
    lt = torch.maximum(box[:2], boxes[:, :2])
    rb = torch.minimum(box[2:], boxes[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=1)
    area = (box[2:] - box[:2]).prod()
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    return inter / (area + areas - inter + 1e-6)


def nms(boxes, scores, threshold=0.9):
    keep = []
    order = scores.argsort(descending=True)
    while order.numel() > 0:
        best = order[0]
        keep.append(best)
        if order.numel() == 1:
            break
        overlap = iou(boxes[best], boxes[order[1:]])  # may: small-kernels
        # mend: break
        order = order[1:][overlap < threshold]  # finds: small-kernels
    return torch.stack(keep)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU())
        self.box = nn.Conv2d(32, 4, 1)
        self.score = nn.Conv2d(32, 1, 1)

    def forward(self, x):
        f = self.backbone(x)
        return self.box(f).flatten(2).transpose(1, 2), self.score(f).flatten(1)


def main(steps=12):
    torch.manual_seed(0)
    model = Detector()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images = torch.randn(8, 3, 96, 96)
    target_box, target_score = torch.rand(8, 144, 4), torch.randint(0, 2, (8, 144)).float()
    rows, cols = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
    grid = 8.0 * torch.stack([cols, rows], dim=-1).flatten(0, 1)
    kept = 0
    for _ in range(steps):
        boxes, scores = model(images)
        loss = F.smooth_l1_loss(boxes, target_box) + F.binary_cross_entropy_with_logits(scores, target_score)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            centres = boxes[0, :, :2] + grid
            corners = torch.cat([centres - 12, centres + 12], dim=1)
            kept += len(nms(corners, scores[0]))
    print("kept", kept)


if __name__ == "__main__":
    main()
