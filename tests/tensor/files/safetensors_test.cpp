#include "tendril/tensor/files/safetensors.h"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <locale>
#include <thread>

#include "tests/errors.h"
#include "tests/temporary_folder.h"
#include "tests/tensor/files/pattern.h"

BOOST_AUTO_TEST_SUITE(safetensors)

using namespace tendril;
using namespace tendril::testing;

namespace {

StateDict all_dtypes() {
  StateDict dict;
  for (const auto& [name, dtype] : kDTypesByName) dict.insert(name, pattern({3, 4}, dtype));
  dict.insert("scalar", pattern({}, kFloat32));
  dict.insert("empty", pattern({0, 5}, kFloat32));
  return dict;
}

void check_equal(const StateDict& got, const StateDict& expected) {
  BOOST_TEST(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    BOOST_TEST_CONTEXT(name) { BOOST_TEST(same(got.at(name), tensor)); }
  }
}

/// A file with this header before these many bytes of elements.
std::string file_of(const std::string& header, std::size_t element_bytes = 0) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(element_bytes, '\0');
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_of_the_python_package_are_read) {
  FileMetadata metadata;
  check_equal(load_safetensors(golden_file("dtypes.safetensors"), &metadata), all_dtypes());
  BOOST_TEST((metadata == FileMetadata{{"format", "pt"}}));
}

BOOST_AUTO_TEST_CASE(files_are_the_python_packages_to_the_last_byte) {
  const TemporaryFolder folder;
  save_safetensors(all_dtypes(), folder / "x.safetensors", {.metadata = {{"format", "pt"}}});
  BOOST_TEST((read_bytes(folder / "x.safetensors") == read_bytes(golden_file("dtypes.safetensors"))));
}

BOOST_AUTO_TEST_CASE(views_are_written_as_what_they_show) {
  const TemporaryFolder folder;
  const Tensor base = pattern({4, 6}, kFloat32);
  const StateDict dict{{"transposed", raw::transpose(base, 0, 1)},
                       {"part", base.slice(1, 1, 5, 2)},
                       {"expanded", raw::expand(raw::select(base, 0, 2), {3, 6})}};
  save_safetensors(dict, folder / "x.safetensors");
  check_equal(load_safetensors(folder / "x.safetensors"), dict);
}

BOOST_AUTO_TEST_CASE(any_text_is_a_name) {
  const TemporaryFolder folder;
  const StateDict dict{{"a \"quoted\"\n\\name", pattern({1}, kFloat32)},
                       {"gr\xc3\xb6\xc3\x9f"
                        "e",
                        pattern({2}, kInt64)}};
  save_safetensors(dict, folder / "x.safetensors", {.metadata = {{"k\"", "v\n"}}});
  FileMetadata metadata;
  check_equal(load_safetensors(folder / "x.safetensors", &metadata), dict);
  BOOST_TEST(metadata.at("k\"") == "v\n");
  BOOST_CHECK_EXCEPTION(save_safetensors({{"\xff", pattern({1}, kFloat32)}}, folder / "y.safetensors"), Error,
                        says("save_safetensors", "y.safetensors", "JSON"));
  BOOST_CHECK_EXCEPTION(save_safetensors({{"__metadata__", pattern({1}, kFloat32)}}, folder / "y.safetensors"), Error,
                        says("__metadata__", "expected another"));
  BOOST_TEST(folder.size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_loaded_may_be_changed_and_the_file_stays) {
  const TemporaryFolder folder;
  save_safetensors({{"x", pattern({1000}, kFloat32)}}, folder / "x.safetensors");
  const std::string before = read_bytes(folder / "x.safetensors");
  Tensor x = load_safetensors(folder / "x.safetensors").at("x");  // the dict is gone, the mapping is not
  raw::fill_(x, 7);
  BOOST_TEST(same(x, raw::full({1000}, 7)));
  BOOST_TEST((read_bytes(folder / "x.safetensors") == before));
  BOOST_TEST(same(load_safetensors(folder / "x.safetensors").at("x"), pattern({1000}, kFloat32)));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_stays_as_it_was_for_its_readers) {
  const TemporaryFolder folder;
  save_safetensors({{"x", pattern({50000}, kFloat32)}}, folder / "x.safetensors");
  const Tensor old = load_safetensors(folder / "x.safetensors").at("x");
  save_safetensors({{"x", raw::zeros({3})}}, folder / "x.safetensors");
  BOOST_TEST(same(old, pattern({50000}, kFloat32)));
  BOOST_TEST(same(load_safetensors(folder / "x.safetensors").at("x"), raw::zeros({3})));
}

BOOST_AUTO_TEST_CASE(every_beginning_of_a_file_is_an_error) {
  const TemporaryFolder folder;
  const std::string whole = read_bytes(golden_file("dtypes.safetensors"));
  for (std::size_t size = 0; size < whole.size(); size += size < 40 ? 1 : 13) {
    write_bytes(folder / "x", whole.substr(0, size));
    BOOST_CHECK_EXCEPTION(load_safetensors(folder / "x"), Error, says("load_safetensors"));
  }
}

BOOST_AUTO_TEST_CASE(files_that_contradict_themselves_are_refused_with_the_reason) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {file_of("[]"), {"does not begin with '{'"}},
      {file_of("{\"x\":"), {"is not JSON"}},
      {file_of(
           R"({"a\"}:":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       {"names an entry twice"}},
      {file_of(R"({"x":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4), {"names an entry twice"}},
      {file_of(R"({"__metadata__":{"k":"1","k":"2"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
       {"names an entry twice"}},
      {file_of(one("F32", "[2]", "[0,8]"), 7), {"cut short", "7 bytes of elements, expected 8"}},
      {file_of(one("F32", "[2]", "[0,8]"), 9), {"9 bytes of elements, expected 8"}},
      {file_of(one("F32", "[2]", "[4,12]"), 12), {"'x'", "begins at byte 4", "expected 0"}},
      {file_of(one("F32", "[3]", "[0,8]"), 8), {"'x'", "got 8 bytes, expected 12"}},
      {file_of(one("F32", "[2]", "[8,0]"), 8), {"'x'", "data_offsets"}},
      {file_of(one("F32", "[-2]", "[0,8]"), 8), {"'x'", "shape", "whole numbers"}},
      {file_of(one("F32", "[2.5]", "[0,8]"), 8), {"'x'", "shape", "whole numbers"}},
      {file_of(one("F32", "[4611686018427387904,4]", "[0,8]"), 8), {"'x'", "too many elements"}},
      {file_of(one("F32", "[0,4611686018427387904,4]", "[0,0]")), {"'x'", "too many elements"}},
      {file_of(one("F32", "[4611686018427387904]", "[0,8]"), 8), {"'x'", "too many elements"}},
      {file_of(one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8), {"'x'", "9 dimensions", "at most 8"}},
      {file_of(one("I16", "[4]", "[0,8]"), 8), {"'x'", "dtype I16", "BF16"}},
      {file_of(one("BOOL", "[1]", "[0,1]")) + "\2", {"'x'", "a bool is 2"}},
      {file_of(R"({"x":{"dtype":"U8","shape":[1]}})", 1), {"'x'", "data_offsets"}},
      {file_of(R"({"x":3})", 1), {"'x'", "no JSON object"}},
      {file_of(R"({"__metadata__":{"a":1}})"), {"__metadata__", "'a'", "string"}},
      {file_of(
           R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           3),
       {"'y'", "begins at byte 1", "overlap"}},
      {file_of(std::string(100, '[')), {"does not begin"}},
      {file_of("{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}"), {"is not JSON"}},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), {"its header would have"}},
  };
  for (const auto& [bytes, parts] : cases) {
    write_bytes(folder / "x", bytes);
    BOOST_TEST_CONTEXT(bytes.substr(std::min<std::size_t>(bytes.size(), 8))) {
      const auto says_all = [&wanted = parts](const Error& error) {
        return std::ranges::all_of(wanted,
                                   [&](const std::string& part) { return says("load_safetensors", part)(error); });
      };
      BOOST_CHECK_EXCEPTION(load_safetensors(folder / "x"), Error, says_all);
    }
  }
}

BOOST_AUTO_TEST_CASE(elements_that_do_not_lie_as_they_must_are_copied) {
  const TemporaryFolder folder;
  const std::string header = one("F32", "[2]", "[0,8]") + "   ";  // its length is no multiple of 4
  const float values[] = {1.5f, -2};
  std::string bytes = file_of(header, 8);
  std::memcpy(bytes.data() + bytes.size() - 8, values, 8);
  BOOST_REQUIRE((bytes.size() - 8) % 4 != 0);
  write_bytes(folder / "x", bytes);
  BOOST_TEST(same(load_safetensors(folder / "x").at("x"), raw::from_data(std::vector<float>{1.5f, -2}, {2})));
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_an_error) {
  const TemporaryFolder folder;
  BOOST_CHECK_EXCEPTION(load_safetensors(folder / "absent"), Error, says("load_safetensors", "absent", "No such file"));
  BOOST_CHECK_EXCEPTION(load_safetensors(folder.path()), Error, says("load_safetensors", "no regular file"));
}

BOOST_AUTO_TEST_CASE(several_files_are_read_through_their_index) {
  const TemporaryFolder folder;
  const StateDict dict = all_dtypes();
  save_safetensors_sharded(dict, folder.path(), {.max_shard_bytes = 100});
  BOOST_TEST(folder.size() > 3u);
  const StateDict loaded = load_safetensors(folder / "model.safetensors.index.json");
  check_equal(loaded, dict);
  auto in_order = loaded.begin();
  for (const auto& [name, tensor] : dict) BOOST_TEST((in_order++)->first == name);
  const std::string index = read_bytes(folder / "model.safetensors.index.json");
  BOOST_TEST(index.find(R"("total_size":)") != std::string::npos);
  BOOST_TEST(index.find(R"(-00001-of-0000)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(files_of_the_index_before_are_removed_and_no_others) {
  const TemporaryFolder folder;
  write_bytes(folder / "model-notes.txt", "mine");
  save_safetensors_sharded(all_dtypes(), folder.path(), {.max_shard_bytes = 100});
  save_safetensors_sharded({{"x", pattern({2}, kFloat32)}}, folder.path());
  BOOST_TEST(folder.size() == 3u);
  check_equal(load_safetensors(folder / "model.safetensors.index.json"), {{"x", pattern({2}, kFloat32)}});
}

BOOST_AUTO_TEST_CASE(an_index_is_read_while_others_replace_it) {
  const TemporaryFolder folder;
  const auto save = [&](double value) {
    StateDict dict;
    for (const char* name : {"a", "b", "c", "d"}) dict.insert(name, raw::full({4}, value));
    save_safetensors_sharded(dict, folder.path(), {.max_shard_bytes = 16});
  };
  save(0);
  std::atomic<bool> done = false;
  std::jthread saver([&] {
    for (int i = 1; i <= 60; ++i) save(i);
    done = true;
  });
  while (!done) {
    const StateDict dict = load_safetensors(folder / "model.safetensors.index.json");
    for (const auto& [name, tensor] : dict) {
      BOOST_TEST(tensor.to_vector<float>() == dict.at("a").to_vector<float>());
    }
  }
}

BOOST_AUTO_TEST_CASE(names_of_files_do_not_depend_on_the_locale) {
  struct Dotted : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\1"; }
  };
  const TemporaryFolder folder;
  const std::locale before = std::locale::global(std::locale(std::locale(), new Dotted));
  save_safetensors_sharded({{"a", raw::ones({2})}}, folder.path());
  std::locale::global(before);
  int shards = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model-")) continue;
    ++shards;
    BOOST_TEST(name.size() == std::string("model-01234567-00001-of-00001.safetensors").size(), name);
    BOOST_TEST(name.substr(14) == "-00001-of-00001.safetensors", name);
  }
  BOOST_TEST(shards == 1);
}

BOOST_AUTO_TEST_CASE(metadata_is_the_files_alone) {
  const TemporaryFolder folder;
  save_safetensors({{"a", raw::ones({2})}}, folder / "x.safetensors");
  FileMetadata metadata = {{"old", "words"}};
  load_safetensors(folder / "x.safetensors", &metadata);
  BOOST_TEST(metadata.empty());
}

BOOST_AUTO_TEST_CASE(a_bad_index_is_refused) {
  const TemporaryFolder folder;
  save_safetensors({{"x", pattern({2}, kFloat32)}}, folder / "a.safetensors");
  const auto refused = [&](const std::string& index, const std::string& reason) {
    write_bytes(folder / "i.json", index);
    BOOST_CHECK_EXCEPTION(load_safetensors(folder / "i.json"), Error, says("load_safetensors", "i.json", reason));
  };
  refused("{", "is not JSON");
  refused("{}", "weight_map");
  refused(R"({"weight_map":{"x":"../a.safetensors"}})", "beside the index");
  refused(R"({"weight_map":{"x":"/etc/passwd"}})", "beside the index");
  refused(R"({"weight_map":{"x":".."}})", "beside the index");
  refused(R"({"weight_map":{"y":"a.safetensors"}})", "no such tensor");
  write_bytes(folder / "i.json", R"({"weight_map":{"x":"b.safetensors"}})");
  BOOST_CHECK_EXCEPTION(load_safetensors(folder / "i.json"), Error, says("b.safetensors", "No such file"));
  BOOST_CHECK_EXCEPTION(save_safetensors_sharded({}, folder.path(), {.max_shard_bytes = 0}), Error,
                        says("max_shard_bytes"));
}

BOOST_AUTO_TEST_SUITE_END()
