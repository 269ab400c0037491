#include "tendril/data/loader.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/errors.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(loader)

using namespace tendril;
using namespace tendril::testing;
using data::DataLoader;
using data::DataLoaderOptions;
using Batches = std::vector<std::vector<int64_t>>;

namespace {

/// Example i: i, a tensor of i, and a random number.
struct Noisy {
  int64_t count = 23;
  int64_t size() const { return count; }
  std::tuple<int64_t, Tensor, double> get(int64_t index, Generator& random) const {
    return {index, raw::full({2}, index), random.uniform()};
  }
};

/// Throws for some.
struct Thorny {
  std::set<int64_t> thorns;
  int64_t size() const { return 12; }
  int64_t get(int64_t index) const {
    if (thorns.contains(index)) throw std::out_of_range("thorn " + std::to_string(index));
    return index;
  }
};

struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  int64_t get(int64_t index) const { return index; }
};

template <class Loader>
Batches epoch(Loader& loader) {
  Batches batches;
  for (auto& batch : loader) batches.push_back(batch.template to_vector<int64_t>());
  return batches;
}

/// All there is in some epochs of a loader of Noisy, as text.
template <class Loader>
std::string run(Loader& loader, uint64_t epochs) {
  std::ostringstream out;
  out.precision(17);
  while (loader.epoch() < epochs) {
    for (auto& [number, tensor, drawn] : loader) {
      for (const double value : number.template to_vector<double>()) out << value << ' ';
      for (const double value : tensor.template to_vector<double>()) out << value << ' ';
      for (const double value : drawn.template to_vector<double>()) out << value << ' ';
      out << '\n';
    }
    out << "epoch\n";
  }
  return out.str();
}

}  // namespace

BOOST_AUTO_TEST_CASE(examples_become_batches_in_order) {
  const Tensor x = raw::view(raw::arange(0, 10), {5, 2}), y = raw::arange(0, 5);
  DataLoader loader(data::TensorDataset(x, y), {.batch_size = 2});
  BOOST_TEST(loader.size() == 3);
  int64_t seen = 0;
  for (auto& [rows, numbers] : loader) {
    const int64_t count = seen < 4 ? 2 : 1;
    BOOST_TEST(raw::equal(rows, raw::narrow(x, 0, seen, count)));
    BOOST_TEST(raw::equal(numbers, raw::narrow(y, 0, seen, count)));
    seen += count;
    BOOST_TEST(loader.batch() == (seen + 1) / 2);
  }
  BOOST_TEST(seen == 5);
  BOOST_TEST(loader.epoch() == 1u);
  DataLoader whole(data::TensorDataset{x}, {.batch_size = 2, .drop_last = true});
  BOOST_TEST(std::ranges::distance(whole.begin(), whole.end()) == 2);
}

BOOST_AUTO_TEST_CASE(any_number_of_workers_gives_the_same_batches) {
  std::string expected;
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(Noisy{}, {.batch_size = 4, .shuffle = true, .seed = test_seed(), .num_workers = workers});
    const std::string got = run(loader, 3);
    if (workers == 0) expected = got;
    BOOST_TEST((got == expected), workers << " workers");
  }
  DataLoader other(Noisy{}, {.batch_size = 4, .shuffle = true, .seed = test_seed(1)});
  BOOST_TEST((run(other, 3) != expected));
}

BOOST_AUTO_TEST_CASE(every_example_of_every_epoch_has_random_numbers_of_its_own) {
  DataLoader loader(Noisy{50}, {.batch_size = 7, .num_workers = 2});
  std::set<double> drawn;
  while (loader.epoch() < 4) {
    for (auto& batch : loader) {
      for (const double value : std::get<2>(batch).to_vector<double>()) drawn.insert(value);
    }
  }
  BOOST_TEST(drawn.size() == 200u);
}

BOOST_AUTO_TEST_CASE(a_loader_goes_on_from_any_place_with_any_number_of_workers) {
  const auto options = [](int workers) {
    return DataLoaderOptions{.batch_size = 4, .shuffle = true, .seed = test_seed(), .num_workers = workers};
  };
  DataLoader whole(Noisy{}, options(0));
  const std::string expected = run(whole, 2);
  for (int stop = 0; stop <= 12; ++stop) {
    const int workers = stop % 3;
    std::string before;
    StateDict saved;
    {
      DataLoader first(Noisy{}, options(workers));
      int left = stop;
      while (left > 0) {
        for (auto& [number, tensor, drawn] : first) {
          std::ostringstream line;
          line.precision(17);
          for (const Tensor* part : {&number, &tensor, &drawn}) {
            for (const double value : part->to_vector<double>()) line << value << ' ';
          }
          before += line.str() + '\n';
          if (--left == 0) break;
        }
        if (left > 0) before += "epoch\n";
      }
      saved = first.state_dict().clone();
    }
    DataLoader second(Noisy{}, options(2 - workers));
    second.load_state_dict(saved);
    BOOST_TEST((before + run(second, 2) == expected), "stopped after " << stop << " batches");
  }
}

BOOST_AUTO_TEST_CASE(a_loop_that_is_left_early_is_over) {
  DataLoader loader(Numbers{6}, {.batch_size = 2, .num_workers = 2});
  for (auto& batch : loader) {
    BOOST_TEST(batch.to_vector<int64_t>()[0] == 0);
    break;
  }
  BOOST_TEST(loader.epoch() == 0u);
  BOOST_TEST(loader.batch() == 1);
  BOOST_TEST((epoch(loader) == Batches{{0, 1}, {2, 3}, {4, 5}}));
  BOOST_TEST(loader.epoch() == 2u);  // the one that was left, and a whole one
  auto first = loader.begin();
  auto second = loader.begin();
  BOOST_CHECK_EXCEPTION(++first, Error, says("this loop is over"));
  BOOST_TEST((++second)->to_vector<int64_t>()[0] == 2);
}

BOOST_AUTO_TEST_CASE(what_an_example_throws_comes_in_its_turn_with_its_number) {
  for (const int workers : {0, 3}) {
    DataLoader loader(Thorny{{7, 10}}, {.batch_size = 2, .num_workers = workers});
    std::vector<int64_t> seen;
    const auto loop = [&] {
      for (auto& batch : loader) seen.push_back(batch.to_vector<int64_t>()[0]);
    };
    bool nested = false;
    try {
      loop();
      BOOST_ERROR("nothing was thrown");
    } catch (const data::DataLoaderError& error) {
      BOOST_TEST(error.what() == "DataLoader: sample 7 (batch 3 of epoch 0): thorn 7");
      BOOST_TEST(error.sample() == 7);
      BOOST_TEST(error.batch() == 3);
      try {
        std::rethrow_if_nested(error);
      } catch (const std::out_of_range& inner) {
        nested = inner.what() == std::string("thorn 7");
      }
    }
    BOOST_TEST(nested);
    BOOST_TEST(seen == (std::vector<int64_t>{0, 2, 4}), boost::test_tools::per_element());
    BOOST_TEST(loader.batch() == 3);  // the one that failed was not handed out
    BOOST_CHECK_EXCEPTION(loop(), data::DataLoaderError, says("sample 7", "epoch 1"));
  }
}

BOOST_AUTO_TEST_CASE(examples_that_make_no_batch_are_an_error_that_lists_them) {
  const auto ragged = data::Dataset(Numbers{6}).map([](int64_t i) { return raw::zeros({i < 4 ? 2 : i}); });
  for (const int workers : {0, 2}) {
    DataLoader loader(ragged, {.batch_size = 2, .num_workers = workers});
    const auto loop = [&] {
      for ([[maybe_unused]] auto& batch : loader) continue;
    };
    BOOST_CHECK_EXCEPTION(loop(), data::DataLoaderError,
                          says("batch 2 of epoch 0, samples 4, 5: ", "example 1", "[5]", "[4]"));
  }
  const auto mixed =
      data::Dataset(Numbers{2}).map([](int64_t i) { return raw::zeros({2}, i == 0 ? kFloat32 : kInt64); });
  DataLoader loader(mixed, {.batch_size = 2});
  BOOST_CHECK_EXCEPTION(loader.begin(), data::DataLoaderError, says("int64", "float32"));
}

BOOST_AUTO_TEST_CASE(threads_make_batches_ahead_but_not_further) {
  std::atomic<int> made = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<int> budgets;
  const auto counted = data::Dataset(Numbers{100}).map([&](int64_t i) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    budgets.insert(num_threads());
    ++made;
    return i;
  });
  {
    DataLoader loader(counted, {.num_workers = 2, .prefetch_factor = 3});
    auto at = loader.begin();
    for (int i = 0; i < 40; ++i) ++at;
    BOOST_TEST(made <= 41 + 6);
  }  // the threads end here, with most batches not made
  BOOST_TEST(made <= 41 + 6);
  BOOST_TEST(!threads.contains(std::this_thread::get_id()));
  BOOST_TEST((budgets == std::set{1}));
}

BOOST_AUTO_TEST_CASE(a_batch_that_does_not_come_is_an_error) {
  std::atomic<bool> go = false;
  const auto stuck = data::Dataset(Numbers{4}).map([&](int64_t i) {
    while (i == 1 && !go) std::this_thread::yield();
    return i;
  });
  DataLoader loader(stuck, {.num_workers = 1, .timeout = std::chrono::milliseconds(50)});
  const auto loop = [&] { epoch(loader); };
  BOOST_CHECK_EXCEPTION(loop(), Error, says("did not come within 50 ms"));
  go = true;
}

BOOST_AUTO_TEST_CASE(values_of_every_kind_are_collated) {
  using Example = std::pair<std::string, std::array<float, 2>>;
  const auto texts = data::Dataset(Numbers{3}).map([](int64_t i) {
    return std::tuple(Example{std::to_string(i), {static_cast<float>(i), 0.5f}}, i > 1, 0.1 * static_cast<double>(i));
  });
  DataLoader loader(texts, {.batch_size = 3, .pin_memory = true});
  const auto [pair, truth, number] = *loader.begin();
  BOOST_TEST(pair.first == (std::vector<std::string>{"0", "1", "2"}), boost::test_tools::per_element());
  BOOST_TEST(pair.second[0].dtype() == kFloat32);
  BOOST_TEST(pair.second[0].to_vector<double>() == (std::vector<double>{0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(truth.dtype() == kBool);
  BOOST_TEST(truth.to_vector<int64_t>() == (std::vector<int64_t>{0, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(number.dtype() == kFloat64);
  BOOST_TEST(number.to_vector<double>()[1] == 0.1);
}

BOOST_AUTO_TEST_CASE(a_function_of_ones_own_collates) {
  DataLoader loader(Numbers{5}, {.batch_size = 2, .num_workers = 1}, [](std::vector<int64_t> examples) {
    std::string text;
    for (const int64_t i : examples) text += std::to_string(i);
    return text;
  });
  std::vector<std::string> texts;
  for (auto& text : loader) texts.push_back(text);
  BOOST_TEST(texts == (std::vector<std::string>{"01", "23", "4"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(transposed_examples_are_stacked_as_what_they_show) {
  const Tensor x = raw::view(raw::arange(0, 6), {2, 3});
  const auto views = data::Dataset(Numbers{2}).map([x](int64_t) { return raw::transpose(x, 0, 1); });
  DataLoader loader(views, {.batch_size = 2});
  BOOST_TEST(loader.begin()->to_vector<int64_t>() == (std::vector<int64_t>{0, 3, 1, 4, 2, 5, 0, 3, 1, 4, 2, 5}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(samplers_of_ones_own_are_asked) {
  struct Backwards final : data::Sampler {
    int64_t size() const override { return 4; }
    std::vector<int64_t> order(uint64_t) const override { return {3, 2, 1, 0}; }
  };
  struct ByLength final : data::BatchSampler {
    int64_t size() const override { return 2; }
    std::vector<std::vector<int64_t>> batches(uint64_t) const override { return {{1}, {0, 2, 3}}; }
  };
  DataLoader one(Numbers{4}, {.batch_size = 2, .sampler = std::make_shared<Backwards>()});
  BOOST_TEST((epoch(one) == Batches{{3, 2}, {1, 0}}));
  DataLoader two(Numbers{4}, {.batch_sampler = std::make_shared<ByLength>()});
  BOOST_TEST((epoch(two) == Batches{{1}, {0, 2, 3}}));
  DataLoader wrong(Numbers{3}, {.sampler = std::make_shared<Backwards>()});
  BOOST_CHECK_EXCEPTION(wrong.begin(), data::DataLoaderError, says("sample 3", "below 3"));
}

BOOST_AUTO_TEST_CASE(a_state_of_other_data_is_refused_and_changes_nothing) {
  DataLoader loader(Numbers{8}, {.batch_size = 2, .shuffle = true, .seed = 1});
  for ([[maybe_unused]] auto& batch : loader) break;
  const StateDict state = loader.state_dict().clone();
  const auto refuses = [&](int64_t count, const DataLoaderOptions& options, const auto&... parts) {
    DataLoader other(Numbers{count}, options);
    BOOST_CHECK_EXCEPTION(other.load_state_dict(state), Error, says("DataLoader::load_state_dict", parts...));
    BOOST_TEST(other.batch() == 0);
  };
  refuses(9, {.batch_size = 2, .shuffle = true, .seed = 1}, "examples: got 8, expected 9");
  refuses(8, {.batch_size = 2, .shuffle = true, .seed = 3}, "seed: got 1, expected 3");
  refuses(8, {.batch_size = 2, .seed = 1}, "order: the epoch's order is another");
  refuses(8, {.batch_size = 4, .shuffle = true, .seed = 1}, "order: the epoch's order is another");
  StateDict far = state.clone();
  raw::fill_(far.at("batch"), 5);
  BOOST_CHECK_EXCEPTION(loader.load_state_dict(far), Error, says("batch: got 5, expected 0 to 4"));
  raw::fill_(far.at("epoch"), -1);
  BOOST_CHECK_EXCEPTION(loader.load_state_dict(far), Error, says("epoch: got -1, expected 0 or more"));
  BOOST_CHECK_EXCEPTION(loader.load_state_dict({}), Error, says("epoch", "order"));
  loader.load_state_dict(state, {.check_only = true});
  BOOST_TEST(loader.batch() == 1);
}

BOOST_AUTO_TEST_CASE(options_that_leave_no_batch_are_refused) {
  const auto refuses = [](int64_t count, const DataLoaderOptions& options, const auto&... parts) {
    BOOST_CHECK_EXCEPTION(DataLoader(Numbers{count}, options), Error, says("DataLoader", parts...));
  };
  refuses(0, {}, "dataset: got 0 examples");
  refuses(0, {.shuffle = true, .num_workers = 2}, "dataset: got 0 examples, expected at least one");
  const auto none = std::make_shared<data::SequentialSampler>(0);
  refuses(5, {.sampler = none}, "no batch is left of 5 examples with batch_size 1 and this sampler");
  refuses(5, {.batch_sampler = std::make_shared<data::BatchSampler>(none, 2)}, "no batch is left of 5 examples");
  refuses(5, {.batch_size = 8, .drop_last = true}, "no batch is left of 5 examples");
  refuses(5, {.batch_size = 0}, "batch_size: got 0");
  refuses(5, {.num_workers = -1}, "num_workers: got -1");
  refuses(5, {.prefetch_factor = 0}, "prefetch_factor: got 0");
  refuses(5, {.timeout = std::chrono::milliseconds(0)}, "timeout: got 0");
  const auto order = std::make_shared<data::SequentialSampler>(5);
  refuses(5, {.shuffle = true, .sampler = order}, "excludes shuffle");
  refuses(5, {.batch_size = 2, .batch_sampler = std::make_shared<data::BatchSampler>(order, 2)}, "excludes");
}

BOOST_AUTO_TEST_CASE(the_time_that_a_loop_waited_is_told) {
  DataLoader loader(Numbers{10}, {.batch_size = 3});
  epoch(loader);
  BOOST_TEST(loader.stats().batches == 4);
  BOOST_TEST(loader.stats().stalled.count() > 0);
  BOOST_TEST(loader.stats().stalled.count() <= loader.stats().elapsed.count());
  std::ostringstream text;
  text << data::LoaderStats{
      .batches = 938, .stalled = data::LoaderStats::Seconds(0.12), .elapsed = data::LoaderStats::Seconds(3.4)};
  BOOST_TEST(text.str() == "stalled 0.12 s of 3.40 s (3.5 %), 938 batches");
}

BOOST_AUTO_TEST_SUITE_END()
