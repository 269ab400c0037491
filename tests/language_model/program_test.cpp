// Runs the real program, with real processes.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/tensor/files/safetensors.h"
#include "tests/language_model/losses.h"
#include "tests/rpc/reserved_port.h"

using tendril::test::contains;
using tendril::test::Process;
using tendril::test::read_file;

BOOST_FIXTURE_TEST_SUITE(program, tendril::test::LanguageModel)

BOOST_AUTO_TEST_CASE(two_processes_compute_the_losses_that_one_does) {
  for (const char* flags : {"--tiny --dropout 0", "--tiny --dropout 0.5 --seed 4",
                            "--tiny --dropout 0 --lr 2 --nlayers 2 --nhid 16 --ninp 8"}) {
    BOOST_TEST_CONTEXT(flags) {
      const std::vector<double> alone = losses(flags + std::string(" --world-size 1"));
      const std::vector<double> distributed = losses(flags + std::string(" --world-size 2"));
      BOOST_REQUIRE(alone.size() == 38u);
      BOOST_REQUIRE(distributed.size() == alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        // float32 rounds by 6e-8; a few roundings that differ are passed on from step to step.
        BOOST_TEST(std::abs(distributed[i] - alone[i]) <= 2e-6 * alone[i],
                   "step " << i << ": " << distributed[i] << ", alone " << alone[i]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(other_layers_and_clipped_gradients_give_the_same_losses_on_two_processes) {
  for (const char* flags :
       {"--tiny --model GRU --clip 0.05", "--tiny --model RNN_RELU --nlayers 1 --lr 1", "--tiny --tied --nhid 2 --lr 1",
        "--tiny --model Transformer", "--tiny --model Transformer --tied --nhead 4 --ninp 8 --nlayers 1 --lr 1"}) {
    BOOST_TEST_CONTEXT(flags) {
      const std::vector<double> alone = losses(flags + std::string(" --world-size 1"));
      const std::vector<double> distributed = losses(flags + std::string(" --world-size 2"));
      BOOST_REQUIRE(alone.size() == 38u);
      BOOST_REQUIRE(distributed.size() == alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) BOOST_TEST(std::abs(distributed[i] - alone[i]) <= 2e-6 * alone[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(it_prints_the_tutorials_lines_and_a_summary) {
  for (const char* world_size : {"1", "2"}) {
    const Result result = run(std::string("--tiny --world-size ") + world_size);
    BOOST_TEST(result.status == 0);
    BOOST_TEST(result.err == "");
    BOOST_TEST(result.out.rfind("world-size=", 0) == 0u);  // all flags as they are, once
    BOOST_TEST(contains(result.out, "\nepochs=2\n"));
    BOOST_TEST(contains(result.out, "\ntokens=500\n"));
    BOOST_TEST(result.out.find("\nepochs=") == result.out.rfind("\nepochs="));
    BOOST_TEST(contains(result.out, "\nTraining epoch 0\tLoss: "));
    BOOST_TEST(contains(result.out, "\nTraining epoch 1\tLoss: "));
    BOOST_TEST(contains(result.out, "  iterations/s  "));
    BOOST_TEST(contains(result.out, "  loss  "));
    BOOST_TEST(contains(result.out, "  RPCs per iteration  ") == (world_size[0] == '2'));
  }
}

BOOST_AUTO_TEST_CASE(a_dry_run_is_one_iteration_and_lines_come_within_an_epoch_when_asked_for) {
  for (const char* world_size : {"1", "2", "3"}) {
    const std::string flags = std::string(" --world-size ") + world_size;
    BOOST_TEST(losses("--dry-run" + flags).size() == 1u);
    const Result result = run("--tiny --log-interval 3" + flags);
    BOOST_TEST(contains(result.out, "\n| epoch   1 |     6/"), result.out);
    BOOST_TEST(!contains(result.out, "|     7/"));
  }
}

BOOST_AUTO_TEST_CASE(the_graph_of_an_iteration_is_drawn_with_a_part_for_each_worker) {
  for (const char* world_size : {"2", "3"}) {
    const Result result = run(std::string("--dry-run --graph out.dot --world-size ") + world_size);
    BOOST_TEST(result.status == 0, result.err);
    const std::string graph = read_file(folder / "out.dot");
    const std::string whole = graph.substr(0, graph.find("\n}\n"));
    BOOST_TEST(contains(whole, "rank 0: ps\""));
    BOOST_TEST(contains(whole, world_size[0] == '2' ? "rank 1: trainer\"" : "rank 1: trainer1\""));
    BOOST_TEST(contains(whole, " -> r"));
    BOOST_TEST(contains(whole, "EmbeddingBackward"));
    BOOST_TEST(contains(graph, "rank 1 starts\\l"));
    BOOST_TEST(contains(graph, "backward returns\\l"));
  }
  BOOST_TEST(contains(run("--dry-run --world-size 1 --graph out.dot").err, "--graph: of several workers"));
}

BOOST_AUTO_TEST_CASE(saved_weights_have_the_names_of_pytorchs_word_language_model) {
  for (const char* world_size : {"1", "2", "3"}) {
    const Result result = run(std::string("--tiny --ninp 3 --tied --save weights --world-size ") + world_size);
    BOOST_TEST(result.status == 0, result.err);
    const tendril::StateDict weights = tendril::load_safetensors(folder / "weights");
    for (const char* name : {"encoder.weight", "rnn.weight_ih_l0", "rnn.bias_hh_l3", "decoder.weight", "decoder.bias"})
      BOOST_TEST(weights.contains(name), name);
    BOOST_TEST(weights.size() == 3u + 4 * 4);
    BOOST_TEST(weights.at("encoder.weight").to_vector<float>() == weights.at("decoder.weight").to_vector<float>(),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(the_loss_falls_at_the_tutorials_sizes) {
  const std::vector<double> all = losses("--world-size 1 --epochs 4");
  const auto mean = [&](std::size_t from, std::size_t count) {
    double sum = 0;
    for (std::size_t i = from; i < from + count; ++i) sum += all[i];
    return sum / static_cast<double>(count);
  };
  BOOST_REQUIRE(all.size() == 4u * 399);
  BOOST_TEST(mean(0, 20) > 2.2);  // ln 10 is 2.3
  BOOST_TEST(mean(all.size() - 399, 399) < 2.0);
}

BOOST_AUTO_TEST_CASE(a_larger_model_learns_more_than_how_frequent_words_are) {
  const Result result = run("--world-size 1 --ninp 16 --nhid 32 --nlayers 1 --dropout 0 --lr 2 --epochs 3");
  const auto at = result.out.find("Training epoch 2\tLoss: ");
  BOOST_REQUIRE(at != std::string::npos);
  BOOST_TEST(std::stod(result.out.substr(at + 23)) < 1.2);
}

namespace {

/// A text that can be learnt by heart, and the flags for it.
struct Text : tendril::test::LanguageModel {
  Text() {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the cat sat on the mat\nthe dog lay by the door\n";
    write("text", text);
  }
  /// Kills the program and its workers when `lines` lines of its output match `pattern`.
  Result run_and_kill(const std::string& all, const std::string& pattern, int lines = 1) const {
    Result killed = run_and_signal(SIGKILL, all, pattern, lines);
    BOOST_TEST(killed.status == 128 + SIGKILL, killed.err);
    return killed;
  }
  /// The number of epochs in the checkpoint `part`, saved by one process or by several workers.
  std::int64_t epochs_saved() const {
    const std::filesystem::path part = folder / "part";
    return tendril::load_safetensors(std::filesystem::is_directory(part) ? part / "checkpoint.index.json" : part)
        .at("epochs")
        .item<std::int64_t>();
  }
  /// Flags of a run that ends only on a signal.
  static constexpr const char* kEndless = " --epochs 1000000";
  /// Flags of a run that ends `count` epochs after the last saved one.
  std::string more_epochs(int count) const { return " --epochs " + std::to_string(epochs_saved() + count); }

  std::string flags = "--data text --emsize 16 --nhid 24 --nlayers 1 --dropout 0.1 --lr 2 --batch-size 4 --bptt 6 ";
};

/// Whether `epoch` is the first epoch in the output.
bool begins_with(const std::string& out, std::int64_t epoch) {
  return contains(out, "Training epoch ") &&
         out.find("Training epoch " + std::to_string(epoch) + "\t") == out.find("Training epoch ");
}

double last_perplexity(const std::string& out) {
  const auto at = out.rfind("\tPerplexity: ");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  return std::stod(out.substr(at + 13));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_text_is_learnt_and_written_by_one_process_by_two_and_by_trainers_that_share_it, Text) {
  for (const char* world_size : {"1", "2", "4"}) {
    const Result result = run(flags + "--epochs 12 --samples 24 --temperature 0 --logdir runs" + world_size +
                              " --world-size " + world_size);
    BOOST_TEST(result.status == 0, result.err);
    BOOST_TEST(last_perplexity(result.out) < 2, result.out);  // of the held-out text
    BOOST_TEST(contains(result.out, "the cat sat on the mat \nthe dog lay by the door \n"), result.out);
    std::string events;
    for (const auto& file : std::filesystem::directory_iterator(folder / (std::string("runs") + world_size)))
      events += read_file(file.path());
    BOOST_TEST(contains(events, "loss/valid"));
  }
}

// How much four trainers learn depends on the scheduler, which decides how old a gradient is when it is applied. The
// number of steps that reach the server does not. (dist/hogwild checks that each step is applied in full.)
BOOST_FIXTURE_TEST_CASE(four_trainers_apply_every_step_and_learn, Text) {
  const Result result =
      shell("TENDRIL_TRACE=trace.json " + program(flags + "--clip 0.25 --epochs 40 --world-size 5 --losses losses"));
  BOOST_TEST(result.status == 0, result.err);
  std::ifstream losses(folder / "losses");
  const auto iterations = std::distance(std::istream_iterator<double>(losses), {});  // of one trainer
  BOOST_TEST(iterations == 40 * 5);
  std::ifstream trace(folder / "trace.json");
  int steps = 0;
  for (std::string line; std::getline(trace, line);)  // one event per line
    steps +=
        contains(line, "\"name\":\"tendril::dist::detail::LocalOptimizer<tendril::optim::SGD>::step\",\"ph\":\"X\"");
  BOOST_TEST(steps == 4 * iterations);
  BOOST_TEST(last_perplexity(result.out) < 3, result.out);  // the text has 11 different words
}

BOOST_FIXTURE_TEST_CASE(the_rate_falls_after_each_epoch_that_does_not_help_unless_trainers_share_the_model, Text) {
  // Gradients cut to so little change nothing: no epoch but the first is better than those before.
  const std::string still =
      "--data text --emsize 4 --nhid 4 --nlayers 1 --dropout 0 --lr 1 --clip 1e-15 --batch-size 4 --bptt 6 --epochs 4 ";
  for (const auto& [world_size, expected] : {std::pair{"1", 1.0 / 64}, {"2", 1.0 / 64}, {"3", 1.0}}) {
    BOOST_TEST_CONTEXT("--world-size " << world_size) {
      const std::string name = std::string("saved") + world_size;
      const Result result = run(still + "--checkpoint " + name + " --world-size " + world_size);
      BOOST_TEST_REQUIRE(result.status == 0, result.err);
      const std::filesystem::path path = folder / name;
      int rates = 0;
      for (const auto& [key, value] :
           tendril::load_safetensors(std::filesystem::is_directory(path) ? path / "checkpoint.index.json" : path)) {
        if (!key.ends_with("optimizer.param_groups.0.lr")) continue;
        ++rates;
        BOOST_TEST(value.item<double>() == expected, boost::test_tools::tolerance(1e-12));
      }
      BOOST_TEST(rates >= 1);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_transformer_learns_a_text_and_writes_it_word_by_word, Text) {
  const Result result =
      run("--data text --world-size 1 --model Transformer --emsize 16 --nhead 2 --nhid 32 --nlayers 1 "
          "--dropout 0 --lr 1 --clip 0.5 --batch-size 4 --bptt 6 --epochs 30 --samples 24 --temperature 0");
  BOOST_TEST(result.status == 0, result.err);
  BOOST_TEST(last_perplexity(result.out) < 2, result.out);
  BOOST_TEST(contains(result.out, "the cat sat on the mat \nthe dog lay by the door \n"), result.out);
}

BOOST_FIXTURE_TEST_CASE(a_run_that_was_stopped_and_went_on_ends_as_one_that_was_not, Text) {
  flags += "--world-size 1 --clip 1 ";
  use_one_thread();
  const std::string part = flags + "--checkpoint part --resume auto";
  const Result stopped = run_and_stop(part + kEndless, "^Training epoch 1");
  BOOST_TEST(stopped.status == 0);
  BOOST_TEST(contains(stopped.out, "Stopped. --resume auto goes on from part\n"));
  const std::string end = more_epochs(30);
  const Result last = run(part + end);
  BOOST_TEST(last.status == 0, last.err);
  const Result whole = run(flags + "--checkpoint whole" + end);
  BOOST_TEST(whole.status == 0, whole.err);
  BOOST_TEST((read_file(folder / "part") == read_file(folder / "whole")));
}

namespace {

/// All bytes of two checkpoints of several workers, but the number of the save.
void check_equal(const std::filesystem::path& a, const std::filesystem::path& b) {
  const tendril::StateDict one = tendril::load_safetensors(a / "checkpoint.index.json"),
                           other = tendril::load_safetensors(b / "checkpoint.index.json");
  BOOST_TEST_REQUIRE(one.size() == other.size());
  for (const auto& [name, tensor] : one) {
    if (name == "shard.0.save") continue;
    BOOST_TEST_REQUIRE(other.contains(name), name);
    const auto bytes = [](const tendril::Tensor& x) {
      return std::string_view(static_cast<const char*>(x.raw_data()),
                              static_cast<std::size_t>(x.numel()) * tendril::size_of(x.dtype()));
    };
    BOOST_TEST((bytes(tensor) == bytes(other.at(name))), name);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_server_and_a_trainer_that_were_stopped_or_killed_end_as_those_that_were_not, Text) {
  flags += "--world-size 2 --clip 1 ";
  use_one_thread();
  const std::string part = flags + "--checkpoint part --resume auto";
  const Result stopped = run_and_stop(part + kEndless, "^Training epoch 1");
  BOOST_TEST(stopped.status == 0, stopped.err);
  BOOST_TEST(contains(stopped.out, "Stopped. --resume auto goes on from part\n"));
  for (int kill = 0; kill < 2; ++kill) {
    const std::int64_t before = epochs_saved();
    run_and_kill(part + kEndless, "^Training epoch", 8);
    BOOST_TEST(epochs_saved() >= before + 7);
  }
  const std::int64_t saved = epochs_saved();
  const std::string end = more_epochs(20);
  const Result last = run(part + end);
  BOOST_TEST(last.status == 0, last.err);
  BOOST_TEST(begins_with(last.out, saved), last.out);
  const Result whole = run(flags + "--checkpoint whole" + end);
  BOOST_TEST(whole.status == 0, whole.err);
  check_equal(folder / "whole", folder / "part");
}

BOOST_FIXTURE_TEST_CASE(trainers_that_share_a_model_stop_together_and_go_on, Text) {
  flags += "--world-size 3 --checkpoint part --resume auto";
  const Result stopped = run_and_stop(flags + kEndless, "^Training epoch 1");
  BOOST_TEST(stopped.status == 0, stopped.err);
  BOOST_TEST(contains(stopped.out, "Stopped. --resume auto goes on from part\n"));
  const std::int64_t saved = epochs_saved();
  BOOST_TEST(saved >= 2);
  const Result last = run(flags + more_epochs(20));
  BOOST_TEST(last.status == 0, last.err);
  BOOST_TEST(begins_with(last.out, saved), last.out);
  BOOST_TEST(contains(last.out, "Training epoch " + std::to_string(saved + 19) + "\t"));
}

BOOST_FIXTURE_TEST_CASE(a_run_that_was_killed_goes_on_with_more_trainers_and_with_one_and_learns_on, Text) {
  flags += "--checkpoint part --resume auto --world-size ";
  const auto first_perplexity = [](const std::string& out) {
    return last_perplexity(out.substr(0, out.find('\n', out.find("Training epoch "))));
  };
  const Result two = run_and_kill(flags + "3" + kEndless, "^Training epoch", 4);
  std::int64_t saved = epochs_saved();
  BOOST_TEST(saved >= 3);
  const Result three = run_and_kill(flags + "4" + kEndless, "^Training epoch", 5);
  BOOST_TEST(begins_with(three.out, saved), three.out);
  BOOST_TEST(epochs_saved() >= saved + 4);
  saved = epochs_saved();
  const Result one = run(flags + "2 --epochs " + std::to_string(saved + 6));
  BOOST_TEST(one.status == 0, one.err);
  BOOST_TEST(begins_with(one.out, saved), one.out);
  // Each begins with what those before have learnt.
  BOOST_TEST(first_perplexity(three.out) < 0.8 * first_perplexity(two.out), two.out << three.out);
  BOOST_TEST(first_perplexity(one.out) < 1.1 * first_perplexity(three.out), three.out << one.out);
  BOOST_TEST(last_perplexity(one.out) < 1.3, one.out);
}

BOOST_FIXTURE_TEST_CASE(an_epoch_in_whose_middle_a_run_was_stopped_begins_anew_with_other_trainers, Text) {
  flags += "--checkpoint part --resume auto --world-size ";
  run_and_stop(flags + "3" + kEndless, "^Training epoch 1");
  const std::int64_t saved = epochs_saved();
  const Result last = run(flags + "4 --losses losses --epochs " + std::to_string(saved + 1));
  BOOST_TEST(last.status == 0, last.err);
  BOOST_TEST(contains(last.out, "Training epoch " + std::to_string(saved) + "\t"), last.out);
  std::ifstream in(folder / "losses");
  BOOST_TEST(std::distance(std::istream_iterator<double>(in), {}) == 6);  // all of its part of the 18 batches
}

BOOST_FIXTURE_TEST_CASE(a_server_that_is_asked_to_stop_passes_it_on, Text) {
  const tendril::test::ReservedPort reserved;
  flags += "--epochs 1000000 --checkpoint part --master-port " + std::to_string(reserved.number());
  Process server = start("--rank 0 " + flags), trainer = start("--rank 1 " + flags);
  std::string out = read_until(trainer, "^Training epoch 1");
  server.signal(SIGTERM);
  out += trainer.rest();
  BOOST_TEST(trainer.wait().code == 0, read_file(folder / "stderr"));
  (void)server.rest();
  BOOST_TEST(server.wait().code == 0, read_file(folder / "stderr"));
  BOOST_TEST(contains(out, "Stopped. --resume auto goes on from part\n"), out);
}

BOOST_AUTO_TEST_CASE(the_ranks_can_be_started_by_hand) {
  const tendril::test::ReservedPort reserved;
  const std::string port = std::to_string(reserved.number());
  const Result result = shell("WORLD_SIZE=2 RANK=0 MASTER_PORT=" + port + " " + program("--tiny") + " & " +
                              program("--tiny --rank 1 --master-port " + port) + "; status=$?; wait; exit $status");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(contains(result.out, "Training epoch 1\t"));
  BOOST_TEST(result.err == "");
}

BOOST_AUTO_TEST_CASE(a_parameter_server_that_is_killed_ends_the_trainer_with_an_error_that_names_it) {
  const tendril::test::ReservedPort reserved;
  const std::string port = std::to_string(reserved.number());
  const std::string flags = "--epochs 1000000 --tokens 500 --master-port " + port;
  // The trainer's first line says that training is under way.
  const Result result =
      shell("'" EXAMPLE_PROGRAM "' --rank 0 " + flags + " > server & ps=$!; { " + program("--rank 1 " + flags) +
            "; echo status $?; } | { read -r line; kill -KILL $ps; echo \"$line\"; cat; }; wait");
  BOOST_TEST(result.out.rfind("Training epoch 0\t", 0) == 0u);
  BOOST_TEST(contains(result.out, "status 1\n"));
  BOOST_TEST(contains(result.err, "worker 'ps'"), result.err);
}

BOOST_AUTO_TEST_CASE(wrong_flags_end_the_program_with_a_clear_error) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--world-size 65", "--world-size: expected an integer from 1 to 64, got 65"},
      {"--world-size 3 --device cuda", "--device: expected cpu with more than one trainer, got cuda"},
      {"--model CNN", "--model: CNN not in {LSTM,GRU,RNN_TANH,RNN_RELU,Transformer}"},
      {"--model Transformer --ninp 3", "--ninp: expected a multiple of --nhead = 2, got 3"},
      {"--model Transformer --nhead 0", "--nhead: expected an integer from 1 to 1000000, got 0"},
      {"--tied", "--tied: expected --nhid to be --ninp = 2, got 3"},
      {"--log-interval -1", "--log-interval: expected an integer from 0 to 1000000, got -1"},
      {"--cuda --device cpu", "--cuda: not beside --device"},
      {"--model GRU --model LSTM", "--model: At Most 1 required but received 2"},
      {"--clip -1", "--clip: expected a number from 0 to 1e+09, got -1"},
      {"--dropout 2", "--dropout: expected a number from 0 to 1, got 2"},
      {"--tokens 29", "--tokens: expected at least batch x (bptt + 1) = 30, got 29"},
      {"--device gpu", "--device: expected cpu, cuda or cuda:N, got gpu"},
      {"--data x --ntoken 5", "--ntoken: not beside --data"},
      {"--samples 5", "--samples: needs --data"},
      {"--world-size 1 --resume auto", "--resume: needs --checkpoint"},
      {"--graph none/out.dot", "--graph: cannot write none/out.dot: No such file or directory"},
      {"--losses none/losses", "--losses: cannot write none/losses: No such file or directory"},
      {"--save none/weights", "--save: cannot write none/weights: No such file or directory"},
      {"--save .", "--save: cannot write .: Is a directory"},
      {"--logdir stdout", "--logdir: cannot write stdout/events: Not a directory"},
      {"--checkpoint stdout", "--checkpoint: cannot write stdout/index: Not a directory"},
      {"--world-size 1 --checkpoint none/file", "--checkpoint: cannot write none/file: No such file or directory"},
      {"--speed 9", "--speed"}};
  for (const auto& [flags, message] : cases) {
    const Result result = run(flags);
    BOOST_TEST(result.status != 0);
    BOOST_TEST(contains(result.err, message), result.err);
    BOOST_TEST(result.out == "");
  }
}

BOOST_AUTO_TEST_CASE(what_is_found_wrong_later_is_an_error_before_training) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--tokens 35 --world-size 3", "expected at least a batch for each trainer, got 1 for 2"},
      {"--rank 2", "the rank must be 0 to 1 in a group of world size 2, got 2"},
      {"--data none", "none"},
      {"--data empty",
       "empty: expected at least batch x (bptt + 1) = 30 words to learn from and as many to keep aside, "
       "got 0 and 0"},
      {"--data . ", "train.txt"},
      {"--tiny --checkpoint losses --resume auto", "losses"}};
  write("losses", "no checkpoint");
  write("empty", "");
  for (const auto& [flags, message] : cases) {
    const Result result = run(flags + (flags.find("resume") == std::string::npos ? "" : " --world-size 1"));
    BOOST_TEST(result.status != 0);
    BOOST_TEST(contains(result.err, message), result.err);
    BOOST_TEST(!contains(result.out, "Training epoch"));
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_an_error_before_any_worker_starts) {
  const Result result = run("--device cuda:127");
  BOOST_TEST(result.status == 2);
  BOOST_TEST(result.err.rfind("no CUDA device: --device cuda:127: ", 0) == 0u, result.err);
  BOOST_TEST(result.out == "");
}

BOOST_AUTO_TEST_CASE(losses_that_a_full_disk_does_not_take_are_an_error) {
  for (const char* flags : {" --world-size 1", " --world-size 2"}) {
    const Result result = run(std::string("--tiny --losses /dev/full") + flags);
    BOOST_TEST(result.status == 1);
    BOOST_TEST(contains(result.err, "cannot write /dev/full: No space left on device"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
