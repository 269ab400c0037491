// A small GPT that learns a text and writes; written from the README and docs/ alone.
#include <tendril/tendril.h>

#include <iostream>
#include <string>
#include <vector>

using namespace tendril;

class Gpt : public nn::Module {
 public:
  Gpt(int64_t vocabulary, int64_t width)
      : embedding_(vocabulary, width),
        position_(width, {.dropout = 0}),
        encoder_(2, width, 4, {.dim_feedforward = 4 * width, .dropout = 0}),
        head_(width, vocabulary) {
    register_module("embedding", embedding_);
    register_module("position", position_);
    register_module("encoder", encoder_);
    register_module("head", head_);
  }
  Tensor forward(const Tensor& tokens) const {  // int64 [length, batch] to [length, batch, vocabulary]
    return head_(encoder_(position_(embedding_(tokens)), {.is_causal = true}));
  }

 private:
  nn::Embedding embedding_;
  nn::PositionalEncoding position_;
  nn::TransformerEncoder encoder_;
  nn::Linear head_;
};

int main() {
  const std::string text = "the quick brown fox jumps over the lazy dog. ";
  const int64_t length = 32, vocabulary = 128;
  std::vector<int64_t> codes;
  for (int i = 0; i < 4; ++i) codes.insert(codes.end(), text.begin(), text.end());
  const Tensor data = from_vector(codes, {static_cast<int64_t>(codes.size())});

  const Gpt model(vocabulary, 32);
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  const auto window = [&](int64_t begin) { return data.slice(0, begin, begin + length); };
  Tensor loss;
  for (int step = 0; step < 90; ++step) {
    std::vector<Tensor> inputs, targets;
    const Tensor starts = randint(0, static_cast<int64_t>(codes.size()) - length - 1, {8});
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t begin = starts[i].item<int64_t>();
      inputs.push_back(window(begin));
      targets.push_back(window(begin + 1));
    }
    optimizer.zero_grad();
    loss = cross_entropy(model.forward(stack(inputs, 1)).reshape({-1, vocabulary}), stack(targets, 1).reshape({-1}));
    loss.backward();
    optimizer.step();
    if (step % 30 == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << "\n";
  }

  const autograd::NoGrad guard;
  std::string written = "the quick ";
  for (int i = 0; i < 20; ++i) {
    const std::vector<int64_t> so_far(written.begin(), written.end());
    const Tensor tokens = from_vector(so_far, {static_cast<int64_t>(so_far.size()), 1});
    written += static_cast<char>(model.forward(tokens)[-1].argmax().item<int64_t>());
  }
  std::cout << written << "\n";
  return loss.item<float>() < 1 ? 0 : 1;
}
