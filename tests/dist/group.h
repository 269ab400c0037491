#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/tensor/creation.h"
#include "tests/errors.h"
#include "tests/rpc/cluster.h"

/// Workers of one group in this process that take part in distributed autograd.
namespace dist_test {

using namespace tendril;
using namespace std::chrono_literals;
using dist::autograd::backward;
using dist::autograd::BackwardOptions;
using dist::autograd::Container;
using dist::autograd::Context;
using dist::autograd::ContextId;
using dist::autograd::Counters;
using dist::autograd::get_gradients;
using dist::autograd::Gradients;
using dist::autograd::Mode;
using rpc::Agent;
using rpc_test::Cluster;
using testing::says;

inline std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }
using Values = std::vector<double>;

inline Tensor leaf(std::initializer_list<double> elements) {
  return tensor(elements, {.dtype = kFloat64, .requires_grad = true});
}
inline Tensor constant(std::initializer_list<double> elements) { return tensor(elements, {.dtype = kFloat64}); }

/// A Cluster whose agents have containers. Its destructor checks that all counters have returned to zero.
class Group {
 public:
  explicit Group(int size, rpc::AgentOptions options = {})
      : cluster_(size, std::move(options), rpc::served_functions(),
                 [](Agent& agent) {
                   Container::attach(agent);
                   dist::attach_collectives(agent);
                 }),
        size_(size) {}
  ~Group() {
    for (int rank = 0; rank < size_; ++rank) {
      const auto container = Container::of((*this)[rank]);
      Cluster::eventually([&] { return container->counters().none(); });
      const Counters left = container->counters();
      BOOST_TEST(left.none(), "w" << rank << " ends with " << left.contexts << " contexts, " << left.send_nodes
                                  << " send nodes, " << left.recv_nodes << " recv nodes, " << left.passes << " passes");
    }
  }

  Agent& operator[](int rank) const { return cluster_[rank]; }
  /// See Cluster::cut.
  static void cut(int a, int b) { Cluster::cut(a, b); }
  Counters counters(int rank) const { return Container::of((*this)[rank])->counters(); }
  int size() const { return size_; }

 private:
  Cluster cluster_;
  int size_;
};

}  // namespace dist_test
