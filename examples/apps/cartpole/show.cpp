#include "show.h"

#include <tendril/envs/render.h>
#include <tendril/envs/vector_cartpole.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace cartpole {

void show_episode(std::int64_t seed, const std::function<tendril::Tensor(const tendril::Tensor& states)>& scores) {
  namespace envs = tendril::envs;
  constexpr envs::TerminalRenderOptions frame;
  const bool animate = isatty(STDOUT_FILENO) != 0;
  const envs::TerminalRenderOptions look{.color = animate && std::getenv("NO_COLOR") == nullptr};
  const auto draw = [&](const envs::CartPole& env) {
    std::printf("%sstep %d%s\n", render_terminal(env.state(), look).c_str(), env.elapsed_steps(),
                animate ? "\x1b[K" : "");
    std::fflush(stdout);
  };

  envs::CartPole env;
  auto observation = env.reset({.seed = seed});
  draw(env);
  const std::chrono::duration<double> time_step(envs::CartPolePhysics::time_step);
  for (auto next = std::chrono::steady_clock::now();;) {
    const auto result = env.step(scores(envs::observation_tensor(observation)).argmax(-1).item<std::int64_t>());
    observation = result.observation;
    if (animate) {
      next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(time_step);
      std::this_thread::sleep_until(next);
      std::printf("\x1b[%dA", frame.rows + 1);
    }
    if (animate || result.done()) draw(env);
    if (result.done()) return;
  }
}

}  // namespace cartpole
