#!/usr/bin/env python3
"""Writes tests/nn/data of optimizers, learning-rate schedules, clipping and averages, beside golden.py, whose words hold here.

Run it with a Python that has PyTorch 2: python3 tests/nn/golden_optim.py [FOLDER].
"""
import torch

import golden
from golden import draw
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

golden.STEPS = 20
golden.SCRIPT = "tests/nn/golden_optim.py"
RATES = 40


class Lion(torch.optim.Optimizer):
    """PyTorch has none: this is the program of Chen et al., 2023 (their Program 1) in tensors."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(beta1 * m + (1 - beta1) * g))
                m.mul_(beta2).add_(g, alpha=1 - beta2)


torch.optim.Lion = Lion


def optimizers():
    golden.optimizer("AdamW", {
        "plain": dict(lr=0.1),
        "betas": dict(lr=0.05, betas=(0.5, 0.75), eps=1e-3, weight_decay=0),
        "decay": dict(lr=0.1, weight_decay=0.5),
        "amsgrad": dict(lr=0.1, betas=(0.9, 0.6), amsgrad=True),
        "maximize": dict(lr=0.1, weight_decay=0.1, maximize=True),
        "later_lr": dict(lr=0.1, later_lr=0.01),
        "groups": [dict(lr=0.1), dict(lr=0.02, betas=(0.8, 0.9), weight_decay=0.3)],
    }, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"])
    golden.optimizer("RMSprop", {
        "plain": dict(lr=0.1),
        "options": dict(lr=0.05, alpha=0.8, eps=1e-3, weight_decay=0.2),
        "momentum": dict(lr=0.02, momentum=0.9),
        "centered": dict(lr=0.02, centered=True, alpha=0.9, eps=0.1),
        "all": dict(lr=0.02, centered=True, alpha=0.9, eps=0.1, momentum=0.8, weight_decay=0.1, maximize=True),
        "later_lr": dict(lr=0.1, momentum=0.5, later_lr=0.01),
        "groups": [dict(lr=0.1), dict(lr=0.02, momentum=0.8)],
    }, ["square_avg", "momentum_buffer", "grad_avg"])
    golden.optimizer("Adagrad", {
        "plain": dict(lr=0.1),
        "options": dict(lr=0.1, lr_decay=0.1, weight_decay=0.2, initial_accumulator_value=0.5, eps=1e-3),
        "maximize": dict(lr=0.1, maximize=True),
        "later_lr": dict(lr=0.1, later_lr=0.01),
        "groups": [dict(lr=0.1), dict(lr=0.02, lr_decay=0.5)],
    }, ["sum"])
    golden.optimizer("Adamax", {
        "plain": dict(lr=0.1),
        "options": dict(lr=0.1, betas=(0.5, 0.8), eps=1e-2, weight_decay=0.2),
        "maximize": dict(lr=0.1, maximize=True),
        "later_lr": dict(lr=0.1, later_lr=0.01),
        "groups": [dict(lr=0.1), dict(lr=0.02, betas=(0.7, 0.9))],
    }, ["exp_avg", "exp_inf"])
    golden.optimizer("Lion", {
        "plain": dict(lr=0.1),
        "options": dict(lr=0.05, betas=(0.5, 0.8), weight_decay=0.2),
        "maximize": dict(lr=0.1, maximize=True),
        "later_lr": dict(lr=0.1, later_lr=0.01),
        "groups": [dict(lr=0.1), dict(lr=0.02, weight_decay=0.5)],
    }, ["exp_avg"])


def rates(out, name, make, momentum=False):
    """The rates of two groups, epoch by epoch (and momenta)."""
    params = [torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)]
    opt = torch.optim.SGD([{"params": [params[0]]}, {"params": [params[1]], "lr": 0.3}], lr=1.0, momentum=0.9)
    step = make(opt)
    seen, momenta = [], []
    for epoch in range(RATES):
        seen.append([group["lr"] for group in opt.param_groups])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        if epoch + 1 < RATES:
            step(epoch)
    out(name, torch.tensor(seen))
    if momentum:
        out(f"{name}.momentum", torch.tensor(momenta))


def schedules():
    out = golden.Writer("lr_scheduler")
    single = {
        "step": lambda o: lr_scheduler.StepLR(o, 7, gamma=0.5),
        "multi_step": lambda o: lr_scheduler.MultiStepLR(o, [3, 10, 10, 25], gamma=0.5),
        "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
        "linear": lambda o: lr_scheduler.LinearLR(o),
        "linear_options": lambda o: lr_scheduler.LinearLR(o, start_factor=0.1, end_factor=0.7, total_iters=12),
        "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 12, eta_min=0.01),
        "warm_restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=0.01),
        "warm_restarts_alike": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 6),
        "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
        "lambdas": lambda o: lr_scheduler.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.5 ** epoch]),
    }
    for name, make in single.items():
        rates(out, name, lambda o: (lambda s: lambda epoch: s.step())(make(o)))
    one_cycle = {
        "one_cycle": dict(), "one_cycle_linear": dict(anneal_strategy="linear", div_factor=10, final_div_factor=100),
        "one_cycle_three": dict(three_phase=True, pct_start=0.25, base_momentum=0.7, max_momentum=0.9),
    }
    for name, options in one_cycle.items():
        rates(out, name, lambda o: (lambda s: lambda epoch: s.step())(
            lr_scheduler.OneCycleLR(o, max_lr=2.0, total_steps=RATES, **options)), momentum=True)

    def chained(o):
        both = lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(o, 0.1, total_iters=4), lr_scheduler.ExponentialLR(o, 0.9)])
        return lambda epoch: both.step()

    def sequential(o):
        warm = lr_scheduler.LinearLR(o, 0.1, total_iters=5)
        after = lr_scheduler.CosineAnnealingLR(o, 30)
        both = lr_scheduler.SequentialLR(o, [warm, after], [5])
        return lambda epoch: both.step()

    rates(out, "chained", chained)
    rates(out, "sequential", sequential)
    metrics = torch.cat([torch.linspace(2, 1, 10), draw(RATES - 10, low=1, high=1.4)])
    out("metrics", metrics)
    for name, options in (("plateau", dict(patience=2)), ("plateau_max", dict(mode="max", patience=1, factor=0.5, cooldown=3)),
                          ("plateau_abs", dict(threshold=0.3, threshold_mode="abs", patience=0, min_lr=1e-3, factor=0.3))):
        rates(out, name, lambda o: (lambda s: lambda epoch: s.step(metrics[epoch].item()))(lr_scheduler.ReduceLROnPlateau(o, **options)))
    out.save()


def clipping():
    out = golden.Writer("clip_grad")
    grads = [draw(3, 2), draw(5), draw(1)]
    for i, g in enumerate(grads):
        out(f"grad{i}", g)
    for name, most, kind in (("two", 1.5, 2), ("one", 3.0, 1), ("three", 1.0, 3), ("inf", 0.7, float("inf")), ("above", 100.0, 2)):
        params = [torch.zeros_like(g, requires_grad=True) for g in grads]
        for p, g in zip(params, grads):
            p.grad = g.clone()
        out(f"{name}.norm", clip_grad_norm_(params, most, norm_type=kind))
        for i, p in enumerate(params):
            out(f"{name}.grad{i}", p.grad)
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads):
        p.grad = g.clone()
    clip_grad_value_(params, 0.8)
    for i, p in enumerate(params):
        out(f"value.grad{i}", p.grad)
    out.save()


def averages():
    out = golden.Writer("ema")
    model = torch.nn.Linear(3, 2)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    values = draw(golden.STEPS, 2, 3)
    out("values", values)
    seen = []
    for value in values:
        with torch.no_grad():
            model.weight.copy_(value)
        average.update_parameters(model)
        seen.append(average.module.weight.detach().clone())
    out("averages", torch.stack(seen))
    out.save()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for family in (optimizers, schedules, clipping, averages):
        family()
