#!/usr/bin/env python3
"""Writes golden.h: NumPy's random streams, and CartPole trajectories computed with NumPy.

    python3 tests/envs/make_golden.py > tests/envs/golden.h

scripts/check_golden.sh compares it with another NumPy. Gymnasium itself is not needed: step() below is its equation of motion
(gymnasium/envs/classic_control/cartpole.py) on NumPy scalars.
"""
import numpy as np

SEEDS = [0, 1, 42, 123, 2**32 - 1, 2**32, 2**40 + 7, 2**63 - 1]


def step(state, action, semi_implicit):
    x, x_dot, theta, theta_dot = state
    force = 10.0 if action == 1 else -10.0
    costheta, sintheta = np.cos(theta), np.sin(theta)
    total_mass, pml, tau = 0.1 + 1.0, 0.1 * 0.5, 0.02
    temp = (force + pml * np.square(theta_dot) * sintheta) / total_mass
    thetaacc = (9.8 * sintheta - costheta * temp) / (0.5 * (4.0 / 3.0 - 0.1 * np.square(costheta) / total_mass))
    xacc = temp - pml * thetaacc * costheta / total_mass
    if semi_implicit:
        x_dot = x_dot + tau * xacc
        x = x + tau * x_dot
        theta_dot = theta_dot + tau * thetaacc
        theta = theta + tau * theta_dot
    else:
        x = x + tau * x_dot
        x_dot = x_dot + tau * xacc
        theta = theta + tau * theta_dot
        theta_dot = theta_dot + tau * thetaacc
    return np.array([x, x_dot, theta, theta_dot])


def balance(state):
    return int(state[2] + state[3] > 0)


def words(values, suffix):
    return "{" + ", ".join(f"{int(v):#x}{suffix}" for v in values) + "}"


def doubles(values):
    return "{" + ", ".join(float(v).hex() for v in values) + "}"


def streams():
    print("// The head of each stream: PCG64(seed).random_raw(3), after SeedSequence(seed).generate_state(6) and (3, uint64).")
    print("struct Stream {\n  std::uint64_t seed;\n  std::array<std::uint32_t, 6> words32;\n"
          "  std::array<std::uint64_t, 3> words64;\n  std::array<std::uint64_t, 3> raw;\n"
          "  std::uint64_t raw_number_1000;\n  std::array<double, 4> uniform;\n};\n")
    print("inline constexpr Stream streams[] = {")
    for seed in SEEDS:
        sequence = np.random.SeedSequence(seed)
        raw = np.random.PCG64(seed).random_raw(1000)
        uniform = np.random.Generator(np.random.PCG64(seed)).uniform(low=-0.05, high=0.05, size=(4,))
        print(f"    {{{seed}U,\n     {words(sequence.generate_state(6), 'U')},\n"
              f"     {words(sequence.generate_state(3, np.uint64), 'U')},\n     {words(raw[:3], 'U')},\n"
              f"     {int(raw[999]):#x}U,\n     {doubles(uniform)}}},")
    print("};\n")


def trajectories():
    print("// 100 float32 observations under the action [theta + theta_dot > 0], from reset(seed).")
    print("struct Trajectory {\n  std::int64_t seed;\n  bool semi_implicit;\n"
          "  std::array<std::array<float, 4>, 100> observations;\n};\n")
    print("inline constexpr Trajectory trajectories[] = {")
    for seed, semi_implicit in [(123, False), (42, False), (123, True)]:
        state = np.random.Generator(np.random.PCG64(seed)).uniform(low=-0.05, high=0.05, size=(4,))
        print(f"    {{{seed}, {str(semi_implicit).lower()}, {{{{")
        for _ in range(100):
            state = step(state, balance(state), semi_implicit)
            print("        {" + ", ".join(f"{v:.9e}F" for v in state.astype(np.float32)) + "},")
        print("    }}},")
    print("};\n")


print(f"#pragma once\n\n// Written by make_golden.py with NumPy {np.__version__}; do not edit.\n// clang-format off\n")
print("#include <array>\n#include <cstdint>\n")
print("namespace golden {\n")
streams()
trajectories()
print("}  // namespace golden")
