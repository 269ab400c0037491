// Chapter 3: training. A module holds parameters, a loss measures the error, and an optimizer reduces it.
#include <tendril/tendril.h>

#include <cstdio>

using namespace tendril;

// Two spirals, one per class, which no straight line can separate.
std::pair<Tensor, Tensor> spirals(std::int64_t count) {
  const Tensor t = rand({count}).sqrt() * 10;
  const Tensor side = randint(0, 2, {count});
  const Tensor angle = t * 0.6 + side.to(kFloat32) * 3.14159;
  const Tensor points = stack({t * cos(angle), t * sin(angle)}, 1) / 10 + randn({count, 2}) * 0.02;
  return {points, side};
}

class Net : public nn::Module {
 public:
  Tensor forward(const Tensor& x) const { return out_(tanh(more_(tanh(hidden_(x))))); }

 private:
  nn::Linear hidden_{2, 32}, more_{32, 32}, out_{32, 2};
  TENDRIL_MEMBERS(hidden_, more_, out_)
};

double accuracy(const Net& net, const Tensor& x, const Tensor& labels) {
  const autograd::NoGrad guard;
  return (net.forward(x).argmax(1) == labels).to(kFloat32).mean().item<double>();
}

int main() {
  manual_seed(2);
  const auto [x, labels] = spirals(2000);
  const auto [test_x, test_labels] = spirals(500);
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  data::DataLoader loader(data::TensorDataset(x, labels), {.batch_size = 50, .shuffle = true, .seed = 2});
  for (int epoch = 1; epoch <= 20; ++epoch) {
    double total = 0;
    for (const auto& [points, sides] : loader) {
      adam.zero_grad();
      const Tensor loss = cross_entropy(net.forward(points), sides);
      loss.backward();
      adam.step();
      total += loss.item<double>();
    }
    if (epoch % 5 == 0)
      std::printf("epoch %2d  loss %.4f  accuracy on new points %.3f\n", epoch,
                  total / static_cast<double>(loader.size()), accuracy(net, test_x, test_labels));
  }
  // PyTorch can read this file with safetensors.torch.load_file.
  save_safetensors(net.state_dict(), "spirals.safetensors");
  Net loaded;
  loaded.load_state_dict(load_safetensors("spirals.safetensors"));
  std::printf("loaded again: accuracy %.3f\n", accuracy(loaded, test_x, test_labels));
}
