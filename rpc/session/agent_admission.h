#pragma once

#include <memory>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/connect/handshake.h"

namespace tendril::rpc::detail {

class GroupEvents;

/// An agent's answers to the peers that connect to it. Owned by the agent.
class AgentAdmission final : public Admission {
 public:
  explicit AgentAdmission(Agent::Impl& agent) noexcept : agent_(agent) {}

  std::shared_ptr<const TlsContext> security() override;
  Hello introduction(const WorkerInfo& to) override;
  void introduced(Handshake& handshake, const Hello& theirs) override;
  void refused(const std::string& why) override;
  bool is_closed() const override;

 private:
  void begin_session(Handshake& handshake, const Hello& mine, const Hello& theirs);
  void continue_session(Handshake& handshake, const Hello& mine, const Hello& theirs);
  void answer_enquiry(Handshake& handshake, const Hello& theirs);
  bool refused_by_group(Handshake& handshake, GroupEvents& events, const Hello& theirs);

  Agent::Impl& agent_;
};

}  // namespace tendril::rpc::detail
