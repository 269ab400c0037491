// Readers beside what Pillow, NumPy, PyTorch and Python's csv read in the same files (tests/data/golden.py).
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <limits>
#include <sstream>

#include "tendril/data/csv.h"
#include "tendril/data/datasets.h"
#include "tendril/data/images.h"
#include "tendril/data/text.h"
#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(readers)

using namespace tendril;
using namespace tendril::testing;
using data::Split;
using Texts = std::vector<std::string>;

namespace {

const std::string kFolder = TENDRIL_TEST_DATA "/";

Tensor golden(const std::string& name) { return load_npy(kFolder + name + ".npy"); }

/// That reading the file, with these bytes, is an error whose text has the parts.
template <class Read, class... Parts>
void refuses(const std::string& name, const std::string& bytes, const Read& read, const Parts&... parts) {
  const TemporaryFolder folder;
  write_bytes(folder / name, bytes);
  BOOST_CHECK_EXCEPTION(read(folder / name), Error, says(name.c_str(), parts...));
}

/// ... and so is reading each beginning of a file.
template <class Read>
void refuses_beginnings(const std::string& name, const Read& read, std::size_t keep = 0) {
  const TemporaryFolder folder;
  const std::string bytes = read_bytes(kFolder + name);
  for (std::size_t size = 0; size + keep < bytes.size(); size += size < 64 ? 1 : 7) {
    write_bytes(folder / name, bytes.substr(0, size));
    BOOST_CHECK_THROW(read(folder / name), Error);
  }
}

double largest_difference(const Tensor& x, const Tensor& y) {
  BOOST_TEST_REQUIRE((x.sizes() == y.sizes()));
  const auto a = x.to_vector<double>(), b = y.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

data::CsvTable table_of(const std::string& text, const data::CsvOptions& options = {}) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", text);
  return data::load_csv(folder / "t.csv", options);  // it keeps the mapping
}

}  // namespace

BOOST_AUTO_TEST_CASE(png_files_are_read_as_pillow_reads_them) {
  if (!data::has_png()) return;
  for (const std::string name : {"rgb", "gray", "rgba", "gray_alpha", "palette", "bits", "interlaced"}) {
    BOOST_TEST(raw::equal(data::load_png(kFolder + name + ".png"), golden(name + "_png")), name);
    BOOST_TEST(raw::equal(data::load_image(kFolder + name + ".png", {.mode = data::ImageMode::gray}),
                          golden(name + "_png_gray")),
               name);
  }
  const data::ImageReadOptions unchanged{.mode = data::ImageMode::unchanged};
  BOOST_TEST(raw::equal(data::load_png(kFolder + "deep.png", unchanged), golden("deep_png")));
  BOOST_TEST(data::load_png(kFolder + "rgba.png", unchanged).size(0) == 4);
  BOOST_TEST(data::load_png(kFolder + "gray_alpha.png", unchanged).size(0) == 2);
}

BOOST_AUTO_TEST_CASE(jpeg_files_are_read_as_pillow_reads_them) {
  if (!data::has_jpeg()) return;
  // Pillow has a newer libjpeg-turbo, whose colours of subsampled files may be one off.
  for (const std::string name : {"full_colour", "gray", "rgb", "progressive"}) {
    BOOST_TEST(largest_difference(data::load_jpeg(kFolder + name + ".jpg"), golden(name + "_jpg")) <= 1, name);
  }
  BOOST_TEST(data::load_image(kFolder + "gray.jpg", {.mode = data::ImageMode::unchanged}).size(0) == 1);
  BOOST_CHECK_EXCEPTION(data::load_jpeg(kFolder + "cmyk.jpg"), Error, says("cmyk.jpg", "CMYK"));
}

BOOST_AUTO_TEST_CASE(png_files_that_we_write_are_read_again) {
  if (!data::has_png()) return;
  const TemporaryFolder folder;
  const Tensor rgb = golden("rgb_png"), rgba = raw::reshape(golden("cifar10_images"), {4, 48, 64});
  for (const Tensor& image :
       {rgb, raw::narrow(rgba, 0, 0, 2), raw::narrow(rgba, 0, 1, 1), rgba, raw::transpose(rgb, 1, 2)}) {
    data::save_png(image, folder / "x.png");
    BOOST_TEST(raw::equal(data::load_png(folder / "x.png", {.mode = data::ImageMode::unchanged}), image));
  }
  BOOST_CHECK_EXCEPTION(data::save_png(rgb, folder / "none" / "x.png"), Error, says("save_png", "x.png"));
  BOOST_CHECK_EXCEPTION(data::save_png(raw::zeros({3, 2, 2}), folder / "x.png"), DTypeError, says("float32", "uint8"));
  BOOST_CHECK_EXCEPTION(data::save_png(raw::zeros({5, 2, 2}, kUInt8), folder / "x.png"), ShapeError, says("[5, 2, 2]"));
  BOOST_TEST(raw::equal(data::load_png(folder / "x.png"), raw::transpose(rgb, 1, 2)));  // the one before is whole
}

BOOST_AUTO_TEST_CASE(images_without_their_library_are_a_clear_error) {
  const TemporaryFolder folder;
  if (!data::has_png()) {
    const auto load = [](const auto& file) { data::load_png(file); };
    BOOST_CHECK_EXCEPTION(load(kFolder + "rgb.png"), Error, says("rgb.png", "built without libpng"));
    BOOST_CHECK_EXCEPTION(data::save_png(raw::zeros({1, 2, 2}, kUInt8), folder / "x.png"), Error,
                          says("built without libpng"));
  }
  if (!data::has_jpeg()) {
    BOOST_CHECK_EXCEPTION(data::load_image(kFolder + "rgb.jpg"), Error, says("built without libjpeg-turbo"));
  }
}

BOOST_AUTO_TEST_CASE(damaged_images_are_refused) {
  const auto png = [](const auto& file) { data::load_png(file); };
  const auto jpeg = [](const auto& file) { data::load_jpeg(file); };
  const auto image = [](const auto& file) { data::load_image(file); };
  refuses("x.png", "GIF89a", png, "is no PNG");
  refuses("x.jpg", read_bytes(kFolder + "rgb.png"), jpeg, "is no JPEG");
  refuses("x.gif", "GIF89a", image, "neither a PNG nor a JPEG");
  if (data::has_png()) {
    refuses_beginnings("rgb.png", png);
    refuses_beginnings("palette.png", png);
    std::string bytes = read_bytes(kFolder + "rgb.png");
    refuses("x.png", bytes.replace(16, 8, "\x7f\xff\xff\xff\x7f\xff\xff\xff"), png, "2147483647 x 2147483647",
            "max_pixels");
    refuses("x.png", bytes.replace(16, 8, std::string("\0\0\x30\0\0\0\x30\0", 8)), png, "damaged");  // its checksum
    refuses("x.png", bytes.replace(16, 8, std::string(8, '\0')), png, "0 x 0");
    BOOST_CHECK_EXCEPTION(data::load_png(kFolder + "rgb.png", {.max_pixels = 116}), Error, says("13 x 9", "116"));
  }
  if (data::has_jpeg()) {
    refuses_beginnings("full_colour.jpg", jpeg, 2);  // the end marker alone is not missed
    refuses_beginnings("progressive.jpg", jpeg, 2);
    std::string bytes = read_bytes(kFolder + "gray.jpg");
    const std::size_t size = bytes.find(std::string("\xff\xc0\0", 3)) + 5;
    refuses("x.jpg", bytes.replace(size, 4, "\x20\x20\x20\x20"), jpeg, "8224 x 8224", "cannot hold");
    BOOST_CHECK_EXCEPTION(data::load_jpeg(kFolder + "gray.jpg", {.max_pixels = 5}), Error, says("51 x 37"));
  }
}

BOOST_AUTO_TEST_CASE(idx_files_of_every_type_are_read_and_written) {
  const TemporaryFolder folder;
  BOOST_TEST(raw::equal(data::load_idx(kFolder + "int.idx"), raw::cast(raw::view(raw::arange(-3, 3), {2, 3}), kInt32)));
  BOOST_TEST(
      data::load_idx(kFolder + "float.idx").to_vector<double>() == (std::vector<double>{0, .25, .5, .75, 1, 1.25}),
      boost::test_tools::per_element());
  BOOST_TEST(data::load_idx(kFolder + "double.idx").item<double>() == 2.5);
  for (const std::string name : {"int.idx", "float.idx", "double.idx", "train-images-idx3-ubyte"}) {
    data::save_idx(data::load_idx(kFolder + name), folder / "x");
    BOOST_TEST((read_bytes(folder / "x") == read_bytes(kFolder + name)), name);
  }
  BOOST_CHECK_EXCEPTION(data::save_idx(raw::zeros({2}, kInt64), folder / "x"), DTypeError, says("int64"));
}

BOOST_AUTO_TEST_CASE(idx_files_that_contradict_themselves_are_refused) {
  const auto read = [](const auto& file) { data::load_idx(file); };
  using namespace std::string_literals;
  refuses("x", "", read, "is no IDX file");
  refuses("x", "\1\0\x08\1"s, read, "is no IDX file");
  refuses("x", "\x1f\x8b\x08\0"s, read, "gunzip");
  refuses("x", "\0\0\x0b\1\0\0\0\0"s, read, "type 11");
  refuses("x", "\0\0\x08\2\0\0\0\1"s, read, "cut short within its header");
  refuses("x", "\0\0\x08\1\0\0\0\3ab"s, read, "2 bytes of elements, expected 3");
  refuses("x", "\0\0\x08\1\0\0\0\1ab"s, read, "2 bytes of elements, expected 1");
  refuses("x", "\0\0\x08\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, read, "too many elements");
  refuses("x", "\0\0\x08\xff"s + std::string(4 * 255, '\0'), read, "255 dimensions");
}

BOOST_AUTO_TEST_CASE(mnist_is_images_and_labels) {
  const data::LabelledImages digits = data::load_mnist(kFolder, Split::train);
  BOOST_TEST(raw::equal(digits.images, golden("mnist_images")));
  BOOST_TEST(digits.size() == 5);
  const auto [image, label] = digits.get(1);
  BOOST_TEST(label == 9);
  BOOST_TEST(raw::equal(image, raw::select(digits.images, 0, 1)));
  BOOST_TEST(digits.classes.at(9) == "9");
  BOOST_CHECK_EXCEPTION(data::load_mnist(kFolder, Split::test), Error, says("t10k-images-idx3-ubyte"));
  const std::string images = kFolder + "train-images-idx3-ubyte", labels = kFolder + "train-labels-idx1-ubyte";
  BOOST_CHECK_EXCEPTION(data::load_idx_images(images, labels, 9), Error, says("label 1 is 9", "0 to 8"));
  BOOST_CHECK_EXCEPTION(data::load_idx_images(labels, images), Error, says("[5]", "[count, height, width]"));
  BOOST_CHECK_EXCEPTION(data::load_idx_images(images, images), Error, says("expected [5] of uint8"));
  const TemporaryFolder folder;
  data::save_idx(raw::zeros({0, 4, 4}, kUInt8), folder / "i");
  data::save_idx(raw::zeros({0}, kUInt8), folder / "l");
  BOOST_CHECK_EXCEPTION(data::load_idx_images(folder / "i", folder / "l"), Error, says("has no images"));
}

BOOST_AUTO_TEST_CASE(cifar_is_images_and_labels) {
  const TemporaryFolder folder;
  const data::LabelledImages one = data::load_cifar10_file(kFolder + "cifar10.bin");
  BOOST_TEST(raw::equal(one.images, golden("cifar10_images")));
  BOOST_TEST(one.labels.to_vector<int64_t>() == (std::vector<int64_t>{1, 0, 9, 4}), boost::test_tools::per_element());
  const std::string bytes = read_bytes(kFolder + "cifar10.bin");
  for (int i = 1; i <= 5; ++i) {
    write_bytes(folder / ("data_batch_" + std::to_string(i) + ".bin"), i == 2 ? bytes.substr(3073) : bytes);
  }
  write_bytes(folder / "test_batch.bin", bytes.substr(0, 3073));
  write_bytes(folder / "batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const data::LabelledImages all = data::load_cifar10(folder.path(), Split::train);
  BOOST_TEST(all.size() == 19);
  BOOST_TEST(raw::equal(raw::narrow(all.images, 0, 4, 3), raw::narrow(one.images, 0, 1, 3)));
  BOOST_TEST(all.classes[9] == "truck");
  BOOST_TEST(data::load_cifar10(folder.path(), Split::test).size() == 1);
  write_bytes(folder / "train.bin", std::string("\x13", 1) + bytes.substr(0, 3073));  // coarse, fine, pixels
  const data::LabelledImages fine = data::load_cifar100(folder.path(), Split::train);
  BOOST_TEST(fine.labels.item<int64_t>() == 1);
  BOOST_TEST(raw::equal(fine.images, raw::narrow(one.images, 0, 0, 1)));
  BOOST_TEST(fine.classes.size() == 100u);
  const auto read = [](const auto& file) { data::load_cifar10_file(file); };
  refuses("x.bin", bytes.substr(1), read, "12291 bytes", "3073");
  refuses("x.bin", "", read, "0 bytes");
  refuses("x.bin", "\x0b" + bytes.substr(1), read, "label 0 is 11", "0 to 9");
}

BOOST_AUTO_TEST_CASE(a_csv_file_is_read_as_pythons_csv_reads_it) {
  const data::CsvTable table = data::load_csv(kFolder + "table.csv", {.header = false});
  std::ifstream expected(kFolder + "table_fields.txt");
  int64_t rows = 0, columns = 0;
  expected >> rows >> columns;
  BOOST_TEST(table.rows() == rows);
  BOOST_TEST(table.columns() == columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    std::string hex, text;
    expected >> hex;
    for (std::size_t at = 1; at < hex.size(); at += 2)
      text += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
    BOOST_TEST(table.text(i / columns, i % columns) == text);
  }
}

BOOST_AUTO_TEST_CASE(columns_of_a_csv_file_are_numbers) {
  const data::CsvTable table =
      table_of("\xef\xbb\xbfname,x,n\r\na, 1.5 ,+3\r\nb,\"-2e3\",-4\r\n\r\nc,nan,9007199254740993");
  BOOST_TEST(table.header() == (Texts{"name", "x", "n"}), boost::test_tools::per_element());
  const Tensor x = table.numbers(Texts{"n", "x"});
  BOOST_TEST((x.sizes() == Dims{3, 2}));
  BOOST_TEST(x.dtype() == kFloat32);
  BOOST_TEST(x.to_vector<double>()[3] == -2000);
  const auto n = table.numbers(Texts{"n"}, {.dtype = kInt64}).to_vector<int64_t>();
  BOOST_TEST(n == (std::vector<int64_t>{3, -4, 9007199254740993}), boost::test_tools::per_element());
  BOOST_TEST(std::isnan(table.numbers(Texts{"x"}, {.dtype = kFloat64}).to_vector<double>()[2]));
  BOOST_TEST(table.line(2) == 5);
  const data::CsvTable gaps = table_of("1;;3\n", {.delimiter = ';', .header = false});
  BOOST_TEST(gaps.all_numbers({.missing = -1}).to_vector<double>()[1] == -1);
  for (const double no_integer : {1e300, -0x1.8p63, HUGE_VAL, 0.5}) {
    const data::NumberOptions options{.dtype = kInt64, .missing = no_integer};
    BOOST_CHECK_EXCEPTION(gaps.all_numbers(options), Error, says("missing", "int64"));
  }
  const auto tiny =
      table_of("1e-400,-1e-320\n", {.header = false}).all_numbers({.dtype = kFloat64}).to_vector<double>();
  BOOST_TEST((tiny[0] == 0 && tiny[1] == -1e-320));
  BOOST_TEST(table_of("a,b\n").all_numbers().numel() == 0);
}

BOOST_AUTO_TEST_CASE(errors_in_a_csv_file_name_line_and_column) {
  const auto read = [](const auto& file) { data::load_csv(file); };
  refuses("x.csv", "a,b\n1,2\n\"x\ny\",4\n5\n", read, "line 5 has 1 fields, expected 2");
  refuses("x.csv", "a,b\n1,\"2\n\n", read, "line 2: a quote is not closed");
  refuses("x.csv", "a,b\n1,2\n1,\"2\"x\n", read, "line 3", "behind a closing quote");
  const auto numbers = [](const auto& file) { data::load_csv(file).all_numbers(); };
  refuses("x.csv", "a,b\n\n1,2\n3,four\n", numbers, "line 4, column 2 ('b'): got 'four', expected a number of float32");
  refuses("x.csv", "a,b\n1,-3.5e38\n", numbers, "line 2, column 2 ('b'): got '-3.5e38', expected a number of float32");
  for (const std::string bad : {"", "1e", "0x10", "--1", "+-1", "1 2", "1_0", "1e400"}) {
    refuses("x.csv", "a\n\"" + bad + "\"\n", numbers, "line 2, column 1", "got '" + bad + "'");
  }
  const data::CsvTable table = table_of("a,b,a\n1,2.5,99999999999999999999\n");
  BOOST_CHECK_EXCEPTION(table.numbers(Texts{"b"}, {.dtype = kInt64}), Error, says("'2.5'", "int64"));
  BOOST_CHECK_EXCEPTION(table.numbers(std::vector<int64_t>{2}, {.dtype = kInt64}), Error, says("column 3", "99999"));
  BOOST_CHECK_EXCEPTION(table.numbers(Texts{"c"}), Error, says("no column 'c'", "'a', 'b'"));
  BOOST_CHECK_EXCEPTION(table.numbers(Texts{"a"}), Error, says("several columns have the name 'a'"));
  BOOST_CHECK_EXCEPTION(table.all_numbers({.dtype = kBool}), DTypeError, says("bool"));
  BOOST_CHECK_EXCEPTION(table.text(1, 0), IndexError, says("row 1"));
  BOOST_CHECK_EXCEPTION(table_of("a", {.delimiter = '"'}), Error, says("delimiter"));
  BOOST_TEST(table_of("").rows() == 0);
}

BOOST_AUTO_TEST_CASE(words_have_the_numbers_that_pytorchs_program_gives_them) {
  const Golden expected(kFolder + "words.txt");
  const data::WordCorpus corpus = data::load_word_corpus(kFolder);
  BOOST_TEST(raw::equal(corpus.train, expected.get("train")));
  BOOST_TEST(raw::equal(corpus.valid, expected.get("valid")));
  BOOST_TEST(raw::equal(corpus.test, expected.get("test")));
  std::string words;
  for (const std::string& word : corpus.vocabulary.tokens()) words += word + "\n";
  BOOST_TEST(words == read_bytes(kFolder + "vocabulary.txt"));
  BOOST_TEST(raw::equal(data::batchify(raw::arange(0, 10), 3), expected.get("batchify")));
  BOOST_TEST(corpus.vocabulary.text(corpus.valid, " ") == "the dog sat <eos> no line end <eos>");
  const data::Vocabulary& known = corpus.vocabulary;
  BOOST_CHECK_EXCEPTION(data::word_ids("the cat\nbarked", known), Error, says("line 2: 'barked'"));
  BOOST_CHECK_EXCEPTION(known.id("barked"), Error, says("'barked'"));
  BOOST_CHECK_EXCEPTION(known.token(99), IndexError, says("got 99"));
  BOOST_CHECK_EXCEPTION(data::Vocabulary({"a", "b", "a"}), Error, says("'a' is there twice"));
  BOOST_CHECK_EXCEPTION(data::batchify(raw::arange(0, 2), 3), Error, says("got 3 for 2 ids"));
  BOOST_CHECK_EXCEPTION(data::load_word_corpus("/dev/null"), Error, says("train.txt"));
}

BOOST_AUTO_TEST_CASE(characters_are_code_points_in_order) {
  const std::string text = "hé, 日本\n";
  const data::Vocabulary vocabulary = data::character_vocabulary(text);
  BOOST_TEST(vocabulary.tokens() == (Texts{"\n", " ", ",", "h", "é", "日", "本"}), boost::test_tools::per_element());
  const Tensor ids = data::character_ids(text, vocabulary);
  BOOST_TEST(ids.to_vector<int64_t>() == (std::vector<int64_t>{3, 4, 2, 1, 5, 6, 0}), boost::test_tools::per_element());
  BOOST_TEST(vocabulary.text(ids) == text);
  BOOST_CHECK_EXCEPTION(data::character_ids("hx", vocabulary), Error, says("byte 1", "'x'"));
  // overlong, a surrogate, beyond the last code point, cut short, a byte of its own
  for (const char* bad : {"a\xc0\x80", "a\xed\xa0\x80", "a\xf4\x90\x80\x80", "a\xe6\x97", "a\x80", "a\xff"}) {
    BOOST_CHECK_EXCEPTION(data::character_vocabulary(bad), Error, says("byte 1 is not UTF-8"));
  }
}

BOOST_AUTO_TEST_CASE(images_are_put_side_by_side) {
  const Tensor images = raw::ones({3, 1, 2, 2}, kUInt8), grid = data::image_grid(images, 2, 1);
  BOOST_TEST((grid.sizes() == Dims{1, 7, 7}));
  BOOST_TEST(grid.to_vector<int64_t>() == (std::vector<int64_t>{0, 0, 0, 0, 0, 0, 0,  //
                                                                0, 1, 1, 0, 1, 1, 0,  //
                                                                0, 1, 1, 0, 1, 1, 0,  //
                                                                0, 0, 0, 0, 0, 0, 0,  //
                                                                0, 1, 1, 0, 0, 0, 0,  //
                                                                0, 1, 1, 0, 0, 0, 0,  //
                                                                0, 0, 0, 0, 0, 0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
