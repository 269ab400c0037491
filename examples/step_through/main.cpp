// Steps through a backward pass over several workers. Runs the protocol of dist/autograd without a network, and shows
// the messages in transit, the message that arrives next, and the receiver's reaction.
//
//   ./step_through                          in the terminal: next, run, a number, quit
//   ./step_through --mode fast              PyTorch's algorithm, which waits forever if a result is unused
//   ./step_through --html page.html         as a page for a browser
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../apps/support/flags.h"
#include "graphs.h"
#include "page.h"

namespace step_through {

using ::examples::PassSimulation;

struct Settings {
  std::string example = "unused", mode = "smart", html;
};

const Example& example_named(const std::string& name) {
  for (const Example& example : examples()) {
    if (example.name == name) return example;
  }
  throw std::invalid_argument(name);  // not reached: the flag accepts only the examples' names
}

/// Prints the transcript from line `from` on. Returns the line after the last one printed.
std::size_t print_news(const PassSimulation& simulation, std::size_t from) {
  for (; from < simulation.transcript().size(); ++from) std::cout << simulation.transcript()[from] << '\n';
  return from;
}

void print_events(const PassSimulation& simulation) {
  std::cout << '\n';
  for (std::size_t i = 0; i < simulation.events().size(); ++i) {
    std::cout << "  [" << i + 1 << "] " << PassSimulation::to_string(simulation.events()[i]) << '\n';
  }
  std::cout << "next, run, a number, quit> " << std::flush;
}

void in_terminal(PassSimulation& simulation) {
  simulation.start();
  std::size_t printed = print_news(simulation, 0);
  bool run = false;
  while (!simulation.events().empty()) {
    std::size_t chosen = 0;
    if (!run) {
      print_events(simulation);
      std::string line;
      if (!std::getline(std::cin, line) || line == "q" || line == "quit") return;
      run = line == "r" || line == "run";
      if (!run && !line.empty() && line != "n" && line != "next") {
        std::size_t read = 0;
        try {
          chosen = std::stoul(line, &read) - 1;
        } catch (const std::exception&) {
        }
        if (read != line.size() || chosen >= simulation.events().size()) {
          std::cout << "'" << line << "' is none of: next, run, quit, 1 to " << simulation.events().size() << '\n';
          continue;
        }
      }
    }
    simulation.happen(chosen);
    printed = print_news(simulation, printed);
  }
  std::cout << (simulation.finished() ? "backward returns" : "nothing happens any more: FAST waits for ever") << '\n';
}

int run(const Settings& settings) {
  const Example& example = example_named(settings.example);
  PassSimulation simulation(example.graph, {.workers = example.workers, .fast = settings.mode == "fast"});
  if (settings.html.empty()) {
    std::cout << example.program << "\n\n";
    in_terminal(simulation);
    return 0;
  }
  std::ofstream out(settings.html);
  out << page(example, std::move(simulation));
  out.close();
  if (!out) {
    std::cerr << "step_through: --html: cannot write " << settings.html << '\n';
    return 1;
  }
  std::cout << settings.html << '\n';
  return 0;
}

}  // namespace step_through

int main(int argc, char** argv) {
  step_through::Settings settings;
  std::vector<std::string> names;
  for (const auto& example : step_through::examples()) names.push_back(example.name);
  examples::Flags flags("step_through", "Steps through a backward pass over several workers");
  flags.add("--example", settings.example, names, "Recorded program");
  flags.add("--mode", settings.mode, std::vector<std::string>{"smart", "fast"}, "Algorithm of the backward pass");
  flags.add_output("--html", settings.html, "Write a page for a browser to this file");
  if (const auto status = flags.parse(argc, argv)) return *status;
  return step_through::run(settings);
}
