// Runs the real program.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/example_program.h"

using tendril::test::contains;
using tendril::test::read_file;

BOOST_AUTO_TEST_SUITE(program)

namespace {

struct Program : tendril::test::ExampleProgram {
  Program() { use_one_thread(); }

  /// Images of one brightness for each label, 0 to 9, as MNIST's files.
  void write_mnist(const std::string& prefix, int count, int width = 12) const {
    const auto number = [](int value) {
      return std::string{0, 0, static_cast<char>(value >> 8), static_cast<char>(value & 255)};
    };
    std::string images = std::string("\0\0\x08\3", 4) + number(count) + number(8) + number(width);
    std::string labels = std::string("\0\0\x08\1", 4) + number(count);
    for (int i = 0; i < count; ++i) {
      images += std::string(static_cast<std::size_t>(8 * width), static_cast<char>(25 * (i % 10)));
      labels += static_cast<char>(i % 10);
    }
    write(prefix + "-images-idx3-ubyte", images);
    write(prefix + "-labels-idx1-ubyte", labels);
  }
  static double accuracy(const std::string& out) {
    const auto at = out.rfind("Accuracy: ");
    BOOST_TEST_REQUIRE(at != std::string::npos);
    return std::stod(out.substr(at + 10));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(it_learns_to_read_digits_that_it_draws, Program) {
  const Result result = run("--examples 1200 --epochs 3 --batch-size 32 --lr 0.003 --logdir runs");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(result.err == "");  // no progress where there is no terminal
  BOOST_TEST(result.out.find("\nepochs=3\nbatch-size=32\n") != std::string::npos);
  BOOST_TEST(result.out.find("\n1200 images to learn from, 200 to test; ") != std::string::npos);
  BOOST_TEST(accuracy(result.out) > 85);
  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(folder / "runs")) events += read_file(file.path());
  BOOST_TEST(contains(events, "accuracy/test"));
  BOOST_TEST(contains(result.out, "label        taken for\n"));
  BOOST_TEST(contains(result.out, "  data loading        stalled "));
  if (contains(result.out, "  mistakes  ")) {
    BOOST_TEST(read_file(folder / "mistakes.png").rfind("\x89PNG", 0) == 0u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_run_that_was_stopped_and_went_on_ends_as_one_that_was_not, Program) {
  const std::string flags = "--examples 600 --epochs 16 --batch-size 16 ";
  const Result whole = run(flags + "--workers 0 --checkpoint whole");
  BOOST_TEST(whole.status == 0);
  // Stopped as soon as it says so, wherever it is then, and again after an epoch.
  const std::string resumed = flags + "--workers 2 --checkpoint part --resume auto";
  const Result first = run_and_stop(resumed, "images to learn from");
  BOOST_TEST(first.status == 0);
  BOOST_TEST(contains(first.out, "Stopped. --resume auto goes on from part\n"));
  const Result second = run_and_stop(resumed, "^Epoch 2");
  BOOST_TEST(second.status == 0);
  BOOST_TEST(contains(second.out, "Stopped. "));
  const Result last = run(flags + "--workers 1 --checkpoint part --resume auto");
  BOOST_TEST(last.status == 0);
  BOOST_TEST(contains(last.out, "Going on after epoch "));
  BOOST_TEST((read_file(folder / "part") == read_file(folder / "whole")));
  BOOST_TEST(whole.out.substr(whole.out.find("Epoch 16"), 40) == last.out.substr(last.out.find("Epoch 16"), 40));
}

BOOST_FIXTURE_TEST_CASE(mnists_files_are_read, Program) {
  write_mnist("train", 400);
  write_mnist("t10k", 50);
  const Result result = run("--data . --epochs 4 --batch-size 16 --lr 0.01 --mistakes m.png");
  BOOST_TEST(result.status == 0, result.err);
  BOOST_TEST(result.out.find("\n400 images to learn from, 50 to test; ") != std::string::npos);
  BOOST_TEST(accuracy(result.out) > 60);
}

BOOST_FIXTURE_TEST_CASE(cifars_files_are_read_by_a_resnet, Program) {
  std::string records;
  for (int i = 0; i < 8; ++i) records += static_cast<char>(i) + std::string(3072, static_cast<char>(30 * i));
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", records);
  write("test_batch.bin", records);
  const Result result = run("--data . --model resnet18 --epochs 1 --batch-size 8");
  BOOST_TEST(result.status == 0, result.err);
  BOOST_TEST(result.out.find("\n40 images to learn from, 8 to test; 11181642 parameters\n") != std::string::npos,
             result.out);
}

BOOST_FIXTURE_TEST_CASE(what_is_wrong_ends_the_program_with_a_clear_error, Program) {
  BOOST_TEST(run("--examples 60 --epochs 1 --checkpoint c").status == 0);
  write("train-images-idx3-ubyte", "no IDX");
  std::filesystem::create_directory(folder / "empty");
  write_mnist("empty/train", 0);
  write_mnist("empty/t10k", 0);
  std::filesystem::create_directory(folder / "sizes");
  write_mnist("sizes/train", 6);
  write_mnist("sizes/t10k", 1, 10);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--data none", "--data: \"none\" is no folder with data_batch_1.bin (CIFAR-10)"},
      {"--data sizes", "--data: images to learn from are [1, 8, 12] and those to test [1, 8, 10], expected one size"},
      {"--data .", "is no IDX file"},
      {"--data empty", "empty/train-images-idx3-ubyte\" has no images"},
      {"--epochs 0", "--epochs: expected an integer from 1"},
      {"--epochs 1 --epochs 2", "--epochs: At Most 1 required but received 2"},
      {"--model vgg", "--model: vgg not in {cnn,resnet18}"},
      {"--resume yes", "--resume: yes not in {no,auto}"},
      {"--device gpu", "--device: expected cpu, cuda or cuda:N, got gpu"},
      {"--examples 60 --checkpoint c --resume auto --batch-size 8", "'loader': "},
      {"--examples 60 --checkpoint c --resume auto --model resnet18", "'model': "},
      {"--checkpoint none/c", "--checkpoint: cannot write none/c: No such file or directory"},
      {"--mistakes none/c.png", "--mistakes: cannot write none/c.png: No such file or directory"},
      {"--logdir c", "--logdir: cannot write c/events: Not a directory"}};
  for (const auto& [flags, message] : cases) {
    const Result result = run(flags);
    BOOST_TEST(result.status != 0);
    BOOST_TEST(contains(result.err, message), flags << ": " << result.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
