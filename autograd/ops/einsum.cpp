#include "tendril/autograd/ops/einsum.h"

#include <algorithm>
#include <array>
#include <string>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/tensor/detail/named_error.h"

namespace tendril {

namespace {

/// The dimensions that "..." stands for have names of their own, the last one this, the one before it one less.
constexpr char kFirstBroadcast = '@';  // downwards: 0x40, 0x3f, ..., of which none is a letter
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

struct Equation {
  std::vector<std::string> operands;
  std::string result;
  bool has_result = false;
};

Equation read(std::string_view given) {
  std::string text;
  for (char c : given) {
    if (c != ' ') text += c;
  }
  const auto bad = [&](const char* why) { detail::raise<Error>("einsum: \"", std::string(given), "\": ", why); };
  Equation equation;
  const std::size_t arrow = text.find("->");
  equation.has_result = arrow != std::string::npos;
  if (equation.has_result) equation.result = text.substr(arrow + 2);
  const std::string left = text.substr(0, arrow);
  for (std::size_t from = 0;;) {
    const std::size_t comma = left.find(',', from);
    equation.operands.push_back(left.substr(from, comma - from));
    if (comma == std::string::npos) break;
    from = comma + 1;
  }
  const auto check = [&](const std::string& subscripts) {
    const std::size_t dots = subscripts.find("...");
    for (std::size_t i = 0; i < subscripts.size(); ++i) {
      if (dots != std::string::npos && i >= dots && i < dots + 3) continue;
      if (!is_letter(subscripts[i])) bad("expected letters, commas, \"...\" once an operand, and \"->\"");
    }
  };
  for (const std::string& each : equation.operands) check(each);
  check(equation.result);
  return equation;
}

/// A tensor and the name of each of its dimensions, all different.
struct Named {
  Tensor x;
  std::string names;
};

/// "..." as names, of `count` dimensions.
std::string spelled(const std::string& subscripts, int count) {
  const std::size_t dots = subscripts.find("...");
  if (dots == std::string::npos) return subscripts;
  std::string names;
  for (int i = count; i-- > 0;) names += static_cast<char>(kFirstBroadcast - i);
  return subscripts.substr(0, dots) + names + subscripts.substr(dots + 3);
}

Named named(const Tensor& x, const std::string& subscripts, std::size_t number) {
  detail::check_defined(x, "einsum", "an operand");
  const bool dots = subscripts.find("...") != std::string::npos;
  const int letters = static_cast<int>(subscripts.size()) - (dots ? 3 : 0);
  TENDRIL_CHECK_AS(ShapeError, dots ? x.dim() >= letters : x.dim() == letters, "einsum: operand ", number,
                   " has shape ", x.sizes(), ", expected ", letters, " dimensions for \"", subscripts, "\"");
  Named result{x, spelled(subscripts, x.dim() - letters)};
  for (std::size_t i = 0; i < result.names.size(); ++i) {  // a repeated letter: its diagonal
    const std::size_t again = result.names.find(result.names[i], i + 1);
    if (again == std::string::npos) continue;
    const auto first = static_cast<int64_t>(i), second = static_cast<int64_t>(again);
    TENDRIL_CHECK_AS(ShapeError, result.x.size(first) == result.x.size(second), "einsum: operand ", number,
                     " of shape ", x.sizes(), " has two sizes for '", std::string(1, result.names[i]), "'");
    result.x = movedim(diagonal(result.x, 0, first, second), -1, first);
    result.names.erase(again, 1);
    --i;
  }
  return result;
}

int64_t size_of_name(const Named& operand, char name) {
  const std::size_t at = operand.names.find(name);
  return at == std::string::npos ? 1 : operand.x.size(static_cast<int64_t>(at));
}

/// x's dimensions in the order of `names`, with size 1 for those that it has not.
Tensor arranged(const Named& operand, const std::string& names) {
  Dims order, sizes;
  for (char name : names) {
    const std::size_t at = operand.names.find(name);
    if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
    sizes.push_back(size_of_name(operand, name));
  }
  return operand.x.permute(order).reshape(sizes);
}

Named summed(const Named& operand, const std::string& kept) {
  Dims gone;
  std::string names;
  for (std::size_t i = 0; i < operand.names.size(); ++i) {
    if (kept.find(operand.names[i]) == std::string::npos) {
      gone.push_back(static_cast<int64_t>(i));
    } else {
      names += operand.names[i];
    }
  }
  return gone.empty() ? operand : Named{operand.x.sum(gone).to(operand.x.dtype()), names};  // int64 for integers
}

/// The product of two, summed over the names that are not `kept`.
Named product(Named a, Named b, const std::string& kept) {
  a = summed(a, kept + b.names);
  b = summed(b, kept + a.names);
  std::string batch, rows, columns, inner;
  Dims batch_sizes, wide_rows, wide_columns;
  for (char name : a.names) {
    const int64_t in_a = size_of_name(a, name), in_b = size_of_name(b, name);
    if (b.names.find(name) == std::string::npos) {
      rows += name;
    } else if (kept.find(name) == std::string::npos && in_a == in_b) {
      inner += name;
    } else {
      TENDRIL_CHECK_AS(ShapeError, in_a == in_b || in_a == 1 || in_b == 1, "einsum: '", std::string(1, name),
                       "' has size ", in_a, " and ", in_b);
      batch += name;
    }
  }
  for (char name : b.names) {
    if (a.names.find(name) == std::string::npos) columns += name;
  }
  for (char name : batch) batch_sizes.push_back(std::max(size_of_name(a, name), size_of_name(b, name)));
  const auto sizes_of = [](const Named& operand, const std::string& names) {
    Dims sizes;
    for (char name : names) sizes.push_back(size_of_name(operand, name));
    return sizes;
  };
  const auto flat = [&](const Named& operand, const std::string& first, const std::string& second) {
    Tensor x = arranged(operand, batch + first + second);
    Dims full = batch_sizes;
    for (int64_t size : sizes_of(operand, first + second)) full.push_back(size);
    return x.expand(full).reshape(
        {numel_of(batch_sizes), numel_of(sizes_of(operand, first)), numel_of(sizes_of(operand, second))});
  };
  Dims sizes = batch_sizes;
  for (int64_t size : sizes_of(a, rows)) sizes.push_back(size);
  for (int64_t size : sizes_of(b, columns)) sizes.push_back(size);
  const Tensor x = flat(a, rows, inner), y = flat(b, inner, columns);
  const Tensor products = detail::named_errors("einsum", {"bmm"}, [&] { return x.bmm(y); });
  const Named out{products.reshape(sizes), batch + rows + columns};
  return summed(out, kept);  // what was broadcast and is not kept
}

void check_sizes(const std::vector<Named>& operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (char name : operands[i].names) {
      for (std::size_t j = 0; j < i; ++j) {
        const int64_t here = size_of_name(operands[i], name), there = size_of_name(operands[j], name);
        TENDRIL_CHECK_AS(ShapeError,
                         operands[j].names.find(name) == std::string::npos || here == there || here == 1 || there == 1,
                         "einsum: ", is_letter(name) ? "'" + std::string(1, name) + "'" : "a dimension of \"...\"",
                         " has size ", there, " in operand ", j, " and ", here, " in operand ", i);
      }
    }
  }
}

}  // namespace

Tensor einsum(std::string_view text, const std::vector<Tensor>& given) {
  const Equation equation = read(text);
  TENDRIL_CHECK(equation.operands.size() == given.size(), "einsum: \"", std::string(text), "\" has ",
                equation.operands.size(), " operands, got ", given.size());
  std::vector<Named> operands;
  int broadcast = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    operands.push_back(named(given[i], equation.operands[i], i));
    const auto dots =
        std::count_if(operands[i].names.begin(), operands[i].names.end(), [](char name) { return !is_letter(name); });
    broadcast = std::max(broadcast, static_cast<int>(dots));
  }
  check_sizes(operands);
  std::string result;
  if (equation.has_result) {
    result = spelled(equation.result, broadcast);
  } else {
    result = spelled("...", broadcast);
    for (char name = 'A'; name <= 'z'; ++name) {
      int count = 0;
      for (const std::string& each : equation.operands)
        count += static_cast<int>(std::count(each.begin(), each.end(), name));
      if (is_letter(name) && count == 1) result += name;
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const bool known = std::any_of(operands.begin(), operands.end(),
                                   [&](const Named& each) { return each.names.find(result[i]) != std::string::npos; });
    TENDRIL_CHECK(known && result.find(result[i], i + 1) == std::string::npos, "einsum: \"", std::string(text), "\": '",
                  std::string(1, result[i]), "' of the result is ", known ? "there twice" : "in no operand");
  }
  Named total = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string kept = result;
    for (std::size_t j = i + 1; j < operands.size(); ++j) kept += operands[j].names;
    total = product(total, operands[i], kept);
  }
  const Tensor out = arranged(summed(total, result), result);
  return out.is_same(given[0]) ? out.clone() : out;
}

Tensor outer(const Tensor& a, const Tensor& b) {
  detail::check_defined(a, "outer", "a");
  detail::check_defined(b, "outer", "b");
  TENDRIL_CHECK_AS(ShapeError, a.dim() == 1 && b.dim() == 1, "outer: expected two vectors, got shapes ", a.sizes(),
                   " and ", b.sizes());
  return a.unsqueeze(1) * b.unsqueeze(0);
}

}  // namespace tendril
