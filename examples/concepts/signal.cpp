// Signals: a rank waits for some ranks instead of all. After WaitSignal() it sees what they had
// fenced before Notify(). Use signals for pipelines and neighbours; a barrier waits for all.
// The program prints:
//   the token came back to rank 0: every rank passed it on
#include "main.h"

using quire::examples::Expect;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    constexpr int kYourTurn = 1;  // the number of the signal, which the program chooses
    QUIRE_ASSIGN_OR_RETURN(auto ring, context.Open("ring", {}));
    const int next = (context.rank() + 1) % context.size();
    const int previous = (context.rank() + context.size() - 1) % context.size();
    const auto pass = [&](const std::string& token) -> quire::Status {
      QUIRE_RETURN_IF_ERROR(ring->Put("token", token));
      QUIRE_RETURN_IF_ERROR(ring->Fence());  // the next rank sees the put after the signal
      return context.Notify(kYourTurn, {next});
    };

    if (context.rank() == 0) QUIRE_RETURN_IF_ERROR(pass("1"));
    QUIRE_RETURN_IF_ERROR(context.WaitSignal(kYourTurn, {previous}));
    std::string token;
    QUIRE_RETURN_IF_ERROR(ring->Get("token", &token));
    if (context.rank() != 0) {
      QUIRE_RETURN_IF_ERROR(pass(std::to_string(std::stoi(token) + 1)));
    } else {
      QUIRE_RETURN_IF_ERROR(Expect(token == std::to_string(context.size()), "token " + token));
      std::cout << "the token came back to rank 0: every rank passed it on\n";
    }
    return ring->Close();
  });
}
