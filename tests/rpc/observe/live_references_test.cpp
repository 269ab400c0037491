// The references that owners and users list.
#include <boost/test/unit_test.hpp>
#include <future>

#include "tendril/rpc/rref.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(live_references)

using namespace rpc_test;
using State = LiveReference::State;

struct Net {
  explicit Net(int v) : value(v) {}
  int get() { return value; }
  int value;
};
std::shared_future<void> opened;
std::unique_ptr<Net> make_later() {
  opened.wait();
  return std::make_unique<Net>(5);
}
RRef<Net> kept;
void keep(const RRef<Net>& net) { kept = net; }
void drop() { kept = {}; }

std::vector<LiveReference> references_of(const Agent& agent) { return RRefContext::of(agent)->table().list(); }

BOOST_AUTO_TEST_CASE(owner_and_users_list_the_same_reference) {
  Cluster cluster(3);
  RRef<Net> net = remote<Net>(cluster[0], 1, 7);
  rpc_sync<&keep>(cluster[0], 2, net);
  BOOST_TEST(Cluster::eventually([&] {
    const auto mine = references_of(cluster[0]);
    return mine.size() == 1 && mine[0].state == State::held && references_of(cluster[1]).size() == 2;
  }));
  const LiveReference mine = references_of(cluster[0]).at(0);
  BOOST_TEST((mine.owner == WorkerInfo{"w1", 1}));
  BOOST_TEST((mine.user == WorkerInfo{"w0", 0}));
  BOOST_TEST(mine.type == "");  // only the owner knows
  BOOST_TEST((mine.age > 0ns));

  std::vector<LiveReference> owned = references_of(cluster[1]);
  BOOST_TEST((owned[0].age >= owned[1].age));
  for (const LiveReference& one : owned) {
    BOOST_TEST(one.id == mine.id);
    BOOST_TEST((one.owner == WorkerInfo{"w1", 1}));
    BOOST_TEST(one.type == "live_references::Net");
    BOOST_TEST((one.state == State::held));
  }
  BOOST_TEST((owned[0].user == WorkerInfo{"w0", 0}));
  BOOST_TEST((owned[1].user == WorkerInfo{"w2", 2}));

  rpc_sync<&drop>(cluster[0], 2);
  BOOST_TEST(Cluster::eventually([&] { return references_of(cluster[1]).size() == 1; }));
  net = {};
  BOOST_TEST(Cluster::eventually([&] { return references_of(cluster[1]).empty(); }));
  BOOST_TEST(references_of(cluster[0]).empty());
}

BOOST_AUTO_TEST_CASE(user_is_unconfirmed_until_object_is_made) {
  std::promise<void> gate;
  opened = gate.get_future();
  Cluster cluster(2);
  const RRef<Net> net = remote<&make_later>(cluster[0], 1);
  BOOST_TEST(Cluster::eventually([&] { return references_of(cluster[1]).size() == 1; }));
  BOOST_TEST((references_of(cluster[0]).at(0).state == State::unconfirmed));
  BOOST_TEST(references_of(cluster[1]).at(0).type == "");
  gate.set_value();
  BOOST_TEST((net.rpc_sync<&Net::get>() == 5));
  BOOST_TEST(references_of(cluster[1]).at(0).type == "live_references::Net");
}

BOOST_AUTO_TEST_CASE(reference_to_lost_owner_is_listed) {
  const Cluster cluster(2);
  const RRef<Net> net = remote<Net>(cluster[0], 1, 7);
  BOOST_TEST((net.rpc_sync<&Net::get>() == 7));
  cluster.cut(0, 1);
  BOOST_TEST(Cluster::eventually([&] {
    const auto mine = references_of(cluster[0]);
    return mine.size() == 1 && mine[0].state == State::lost && mine[0].owner.id == 1;
  }));
  BOOST_TEST(Cluster::eventually([&] { return references_of(cluster[1]).empty(); }));
}

BOOST_AUTO_TEST_SUITE_END()
