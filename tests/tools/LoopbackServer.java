import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.io.PrintStream;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;

/**
 * Starts DynamoDB Local on 127.0.0.1 only, on a port that the system chooses.
 *
 * <p>DynamoDB Local itself listens on every interface and has no option against it. The port is the
 * only line on the standard output. The process ends with its standard input, so that it cannot
 * outlive the program that started it.
 */
public final class LoopbackServer {
    public static void main(String[] arguments) throws Exception {
        PrintStream answer = System.out;
        System.setOut(System.err);
        DynamoDBProxyServer dynamodb = ServerRunner.createServerFromCommandLineArgs(arguments);
        Connector connector = onlyConnector(dynamodb);
        connector.setHost("127.0.0.1");
        connector.setPort(0);
        dynamodb.start();
        answer.println(connector.getLocalPort());
        answer.flush();
        while (System.in.read() >= 0) {
            // Nothing is ever sent; the end of the stream is the message.
        }
        // Its own shutdown waits for idle connections of clients that may be gone.
        Runtime.getRuntime().halt(0);
    }

    /** Reads the web server out of its private field; there is no other way to it. */
    private static Connector onlyConnector(DynamoDBProxyServer dynamodb) throws Exception {
        for (Field field : DynamoDBProxyServer.class.getDeclaredFields()) {
            if (field.getType() == Server.class) {
                field.setAccessible(true);
                Connector[] connectors = ((Server) field.get(dynamodb)).getConnectors();
                if (connectors.length == 1) {
                    return connectors[0];
                }
            }
        }
        throw new IllegalStateException("this DynamoDB Local cannot be bound to one address");
    }
}
