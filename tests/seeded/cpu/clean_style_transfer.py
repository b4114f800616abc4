"""A picture painted in the style of another: the picture itself is what is optimised."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def vgg_like():
    layers, c = [], 3
    for width, pool in ((32, False), (32, True), (64, False), (64, True), (128, False)):
        layers += [nn.Conv2d(c, width, 3, padding=1), nn.ReLU()] + ([nn.MaxPool2d(2)] if pool else [])
        c = width
    return nn.Sequential(*layers).eval().requires_grad_(False)


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


def features(net, x, taps=(1, 3, 6, 8)):
    out = []
    for i, layer in enumerate(net):
        x = layer(x)
        if i in taps:
            out.append(x)
    return out


def main(iterations=25, size=128):
    torch.manual_seed(0)
    net = vgg_like()
    content, style = torch.rand(1, 3, size, size), torch.rand(1, 3, size, size)
    with torch.no_grad():
        target_c = features(net, content)[2]
        target_s = [gram(f) for f in features(net, style)]
    image = content.clone().requires_grad_(True)
    opt = torch.optim.Adam([image], lr=0.02)
    for _ in range(iterations):
        feats = features(net, image)
        style_loss = sum(F.mse_loss(gram(f), g) for f, g in zip(feats, target_s))
        tv = (image[..., 1:] - image[..., :-1]).abs().mean() + (image[..., 1:, :] - image[..., :-1, :]).abs().mean()
        loss = F.mse_loss(feats[2], target_c) + 1e3 * style_loss + 1e-2 * tv
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            image.clamp_(0, 1)


if __name__ == "__main__":
    main()
