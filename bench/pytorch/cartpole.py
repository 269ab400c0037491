#!/usr/bin/env python3
"""The CartPole example in PyTorch RPC, for comparison: one agent, world_size - 1 observers, processes of this machine.

    python3 bench/pytorch/cartpole.py --world-size 3 --seconds 20

The program is PyTorch's RPC tutorial (pytorch/examples, distributed/rpc/rl/main.py) with the changes that
examples/apps/cartpole makes too: returns per observer and per episode, a truncated episode goes on for ever in expectation, no
update when no episode failed, a seed per observer. Gym is not needed: CartPole-v1 is below, in plain Python floats.

Settings: PyTorch's best on one machine (settings.py), argument validation of distributions off. Prints a summary whose
first words are those of examples/apps/cartpole. Where PyTorch is not installed it says so and exits 0.
"""
import argparse
import math
import os
import socket
import sys
import time

import settings

AGENT_NAME = "agent"
OBSERVER_NAME = "observer{}"
TOTAL_EPISODE_STEP = 5000

if __name__ == "__main__":
    settings.use_best()

try:
    import numpy as np
    import torch
    import torch.distributed.rpc as rpc
    import torch.multiprocessing as mp
    import torch.nn as nn
    import torch.nn.functional as F
    import torch.optim as optim
    from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync
    from torch.distributions import Categorical, Distribution
except ImportError as error:
    print(f"PyTorch is not installed here ({error}): no comparison.")
    sys.exit(0)


class CartPole:
    """CartPole-v1 as in Gymnasium, on Python floats."""

    reward_threshold = 475.0
    max_episode_steps = 500
    theta_threshold = 12 * 2 * math.pi / 360

    def __init__(self, seed):
        self.random = np.random.Generator(np.random.PCG64(seed))

    def reset(self):
        self.state = tuple(float(v) for v in self.random.uniform(-0.05, 0.05, size=(4,)))
        self.steps = 0
        return np.array(self.state, dtype=np.float32)

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(theta), math.sin(theta)
        temp = (force + 0.05 * theta_dot * theta_dot * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        x, x_dot = x + 0.02 * x_dot, x_dot + 0.02 * x_acc
        theta, theta_dot = theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc
        self.state = (x, x_dot, theta, theta_dot)
        self.steps += 1
        terminated = abs(x) > 2.4 or abs(theta) > self.theta_threshold
        return np.array(self.state, dtype=np.float32), 1.0, terminated, self.steps >= self.max_episode_steps


def _call_method(method, rref, *args, **kwargs):
    return method(rref.local_value(), *args, **kwargs)


def _remote_method(method, rref, *args, **kwargs):
    return rpc_sync(rref.owner(), _call_method, args=[method, rref] + list(args), kwargs=kwargs)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 128)
        self.dropout = nn.Dropout(p=0.6)
        self.affine2 = nn.Linear(128, 2)

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=1)


class Observer:
    def __init__(self, seed):
        self.id = rpc.get_worker_info().id
        self.env = CartPole(seed)
        self.latencies = []

    def run_episode(self, agent_rref, n_steps):
        """One episode; returns whether it terminated (else a limit ended it)."""
        clock = time.perf_counter_ns
        state = self.env.reset()
        for _ in range(n_steps):
            t0 = clock()
            action = _remote_method(Agent.select_action, agent_rref, self.id, state)
            t1 = clock()
            state, reward, terminated, truncated = self.env.step(action)
            t2 = clock()
            _remote_method(Agent.report_reward, agent_rref, self.id, reward)
            self.latencies += [t1 - t0, clock() - t2]
            if terminated or truncated:
                return terminated
        return False

    def take_latencies(self):
        return np.array(self.latencies)


class Agent:
    def __init__(self, world_size, gamma, seed):
        self.ob_rrefs = []
        self.agent_rref = RRef(self)
        self.rewards = {}
        self.saved_log_probs = {}
        self.terminated = {}
        self.gamma = gamma
        self.policy = Policy()
        self.optimizer = optim.Adam(self.policy.parameters(), lr=1e-2)
        self.eps = np.finfo(np.float32).eps.item()
        self.running_reward = 0
        self.steps = 0
        for ob_rank in range(1, world_size):
            ob_info = rpc.get_worker_info(OBSERVER_NAME.format(ob_rank))
            self.ob_rrefs.append(remote(ob_info, Observer, args=(seed * 1000 + ob_rank,)))
            self.rewards[ob_info.id] = []
            self.saved_log_probs[ob_info.id] = []

    def select_action(self, ob_id, state):
        probs = self.policy(torch.from_numpy(state).float().unsqueeze(0))
        m = Categorical(probs)
        action = m.sample()
        self.saved_log_probs[ob_id].append(m.log_prob(action))
        return action.item()

    def report_reward(self, ob_id, reward):
        self.rewards[ob_id].append(reward)

    def run_episode(self, n_steps):
        futs = [rpc_async(ob_rref.owner(), _call_method, args=(Observer.run_episode, ob_rref, self.agent_rref, n_steps))
                for ob_rref in self.ob_rrefs]
        for ob_id, fut in zip(self.rewards, futs):
            self.terminated[ob_id] = fut.wait()

    def finish_episode(self):
        min_reward = min(sum(rewards) for rewards in self.rewards.values())
        self.running_reward = 0.05 * min_reward + (1 - 0.05) * self.running_reward
        probs, returns = [], []
        for ob_id, rewards in self.rewards.items():
            R = 0.0 if self.terminated[ob_id] else 1 / (1 - self.gamma)
            episode = []
            for r in reversed(rewards):
                R = r + self.gamma * R
                episode.append(R)
            returns += reversed(episode)
            probs += self.saved_log_probs[ob_id]
            self.steps += len(rewards)
            self.rewards[ob_id], self.saved_log_probs[ob_id] = [], []
        if any(self.terminated.values()):
            returns = torch.tensor(returns)
            returns = (returns - returns.mean()) / (returns.std() + self.eps)
            self.optimizer.zero_grad()
            (-torch.cat(probs) * returns).sum().backward()
            self.optimizer.step()
        return min_reward


def run_agent(args):
    agent = Agent(args.world_size, args.gamma, args.seed)
    start = time.perf_counter()
    episode, solved = 0, False
    while not solved and time.perf_counter() - start < args.seconds:
        episode += 1
        agent.run_episode(TOTAL_EPISODE_STEP // (args.world_size - 1))
        last_reward = agent.finish_episode()
        if episode % args.log_interval == 0:
            print(f"Episode {episode}\tLast reward: {last_reward:.2f}\tAverage reward: {agent.running_reward:.2f}", flush=True)
        solved = agent.running_reward > CartPole.reward_threshold
    seconds = time.perf_counter() - start
    if solved:
        print(f"Solved! Running reward is now {agent.running_reward}!")
    latencies = np.concatenate([_remote_method(Observer.take_latencies, rref) for rref in agent.ob_rrefs]) / 1000
    print(f"{'Solved' if solved else 'Stopped'} after {seconds:.2f} s: {episode} episodes, {agent.steps} environment steps")
    print(f"  environment steps/s  {agent.steps / seconds:.0f}")
    print(f"  RPCs/s               {len(latencies) / seconds:.0f}")
    print(f"  call latency         p50 {np.percentile(latencies, 50):.0f} us, p99 {np.percentile(latencies, 99):.0f} us")


def run_worker(rank, args, port):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    Distribution.set_default_validate_args(False)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    name = AGENT_NAME if rank == 0 else OBSERVER_NAME.format(rank)
    rpc.init_rpc(name, rank=rank, world_size=args.world_size, rpc_backend_options=options)
    if rank == 0:
        run_agent(args)
    rpc.shutdown()


def main():
    parser = argparse.ArgumentParser(description="CartPole over PyTorch RPC, for comparison with examples/apps/cartpole")
    parser.add_argument("--world-size", type=int, default=2, metavar="W", help="processes: an agent and W - 1 observers")
    parser.add_argument("--gamma", type=float, default=0.99, metavar="G", help="discount factor")
    parser.add_argument("--seed", type=int, default=543, metavar="N", help="random seed")
    parser.add_argument("--log-interval", type=int, default=10, metavar="N", help="episodes between status lines")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="stop after S seconds, solved or not")
    args = parser.parse_args()
    if args.world_size < 2:
        parser.error("--world-size must be at least 2: PyTorch's program always has an observer process")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(f"PyTorch {torch.__version__}, world size {args.world_size}, {os.cpu_count()} cores, "
          f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')}", flush=True)
    mp.spawn(run_worker, args=(args, port), nprocs=args.world_size, join=True)


if __name__ == "__main__":
    main()
